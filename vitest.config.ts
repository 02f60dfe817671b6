import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    globalSetup: ['test/harness/global-setup.ts'],
    setupFiles: ['test/harness/restore-after-file.ts'],
    // `npm run sim -- --prove-sql` sets the variable.
    include:
      process.env.SWITCHYARD_PLANTED_SQL_BUGS === undefined
        ? ['test/**/*.test.ts', 'src/**/*.test.ts']
        : ['test/sim/planted-sql-bugs.ts'],
    pool: 'forks',
    maxWorkers: 3,
    // One process per file would load everything again for each and take a fifth of the run. A test restores what it changes for its process.
    isolate: false,
    // Only end tests that hang: a test must not fail because the machine is busy. A test that needs a time limit sets one itself.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000, interval: 10 } },
    // Tests run real servers and databases, so a test that passes only the second time has found a bug.
    retry: 0,
  },
})
