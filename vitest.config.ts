import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: 3,
    projects: [
      // The leaves keep no state, so that their tests can share a process: a process for each of them takes longer than the tests.
      { extends: true, test: { name: 'leaves', include: ['src/**/*.test.ts'], isolate: false } },
      {
        extends: true,
        test: { name: 'whole', include: ['test/**/*.test.ts'], globalSetup: ['test/harness/global-setup.ts'] },
      },
    ],
    // These end what hangs, and nothing else: a machine under load must not fail a test. What a test has to see in time it says itself.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000, interval: 10 } },
    // Real servers and real databases: a test that passes only the second time has found something.
    retry: 0,
  },
})
