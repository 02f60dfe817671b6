import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    globalSetup: ['test/harness/global-setup.ts'],
    include: ['test/**/*.test.ts', 'src/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 3,
    // A process for each file, which loads everything anew, took a fifth of the run. What a test changes for the whole process it puts back.
    isolate: false,
    // These end what hangs, and nothing else: a machine under load must not fail a test. What a test has to see in time it says itself.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000, interval: 10 } },
    // Real servers and real databases: a test that passes only the second time has found something.
    retry: 0,
  },
})
