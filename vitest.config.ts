import { globSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { texts } from './console/texts-plugin.ts'
import { codeMutations } from './sim/code-mutations.ts'
import { mutated } from './sim/mutations.ts'
import { locatePrograms } from './src/base/db/postgres-programs.ts'
import { useRunDirectory } from './test/harness/run-directory.ts'

useRunDirectory()

// `npm run sim -- --prove-sql`, `npm run sim -- --prove-code` and `npm run test:postgres` set the variables.
const {
  SWITCHYARD_PLANTED_SQL_BUGS: plantedBugs,
  SWITCHYARD_PLANTED_BUG: plantedBug,
  SWITCHYARD_TEST_POSTGRES: givenPrograms,
} = process.env
const all = globSync('{test,src}/**/*.test.ts', { cwd: import.meta.dirname })
/** Those that reach a database or a browser of test/harness by their imports, at any depth. */
const withHarness = all.filter(file => reachesHarness(join(import.meta.dirname, file)))

/** What runs again on PostgreSQL 15 with its default settings: how charges are settled, recovered and audited. `npm run test:postgres` runs more. */
const onOldPostgres = [
  'test/db/pool.test.ts',
  'test/ledger/{lost-transactions,outages,plan-costs,reaper,settle,settle-bulk-lease,usage-archive}.test.ts',
]

export default defineConfig({
  // Tests read modules of the console, which have texts.
  plugins: [texts(), ...(plantedBug === undefined ? [] : [plant(plantedBug)])],
  test: {
    projects:
      givenPrograms === undefined
        ? [
            project('unit', plantedBugs === undefined ? all.filter(file => !withHarness.includes(file)) : []),
            project('embedded', plantedBugs === undefined ? withHarness : ['test/sim/planted-sql-bugs.ts']),
            project(
              'postgres 15',
              plantedBugs === undefined ? onOldPostgres : [],
              locatePrograms(createRequire(import.meta.url).resolve('postgres15')),
            ),
          ]
        : [
            project(
              'given postgres',
              plantedBugs === undefined ? all : ['test/sim/planted-sql-bugs.ts'],
              givenPrograms,
            ),
          ],
    pool: 'forks',
    maxWorkers: 3,
    // One process per file would load everything again for each and take a fifth of the run. A test restores what it changes for its process.
    isolate: false,
    // Only end tests that hang: a test must not fail because the machine is busy. One that takes 27 s alone took more than 120 s at a load of 40.
    // A test that needs a time limit sets one itself.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 90_000, interval: 10 } },
    // Tests run real servers and databases, so a test that passes only the second time has found a bug: scripts/test.ts names it.
    retry: 0,
  },
})

function reachesHarness(file: string, seen = new Set<string>()): boolean {
  if (seen.has(file)) return false
  seen.add(file)
  const source = readFileSync(file, 'utf8')
  if (source.includes('inject(') || file.endsWith('/test/harness/chromium.ts')) return true
  const imported = [...source.matchAll(/^(?:import .*|export .*|\}) from '(\.[^']+\.ts)'$/gm)].map(([, path]) =>
    resolve(dirname(file), path!),
  )
  return imported.some(path => path.startsWith(join(import.meta.dirname, 'test')) && reachesHarness(path, seen))
}

/** Changes the source of one file while it is loaded. */
function plant(id: string) {
  const bug = codeMutations.find(candidate => candidate.id === id)
  if (bug === undefined) throw new Error(`no planted bug has the id ${id}`)
  const path = fileURLToPath(new URL(bug.file, import.meta.url))
  return {
    name: `planted bug ${id}`,
    enforce: 'pre' as const,
    transform: (source: string, file: string) => (file === path ? mutated(bug, source) : undefined),
  }
}

/** @param postgresPrograms of a PostgreSQL to run with its default settings; by default the embedded one runs */
function project(name: string, include: string[], postgresPrograms?: string): TestProjectInlineConfiguration {
  return {
    extends: true,
    test: {
      name,
      include,
      // Files that use neither a database nor a browser wait for none.
      globalSetup: name === 'unit' ? [] : ['test/harness/global-setup.ts'],
      setupFiles: ['test/harness/every-file.ts'],
      ...(postgresPrograms !== undefined && { provide: { postgresPrograms } }),
    },
  }
}
