import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Mutation } from './mutations.ts'

/**
 * Plants one bug in the SQL functions of a real PostgreSQL and runs the tests until one fails: first the
 * comparison with the model, then the tests of the ledger with its oracle, then all others. Returns the file and the name of the test that failed;
 * undefined when the bug survives.
 */
export async function proveSql(bug: Mutation): Promise<string | undefined> {
  for (const tests of STAGES) {
    const failed = await firstFailure(bug, tests)
    if (failed !== undefined) return failed
  }
  return undefined
}

/** Arguments of vitest. The tests that find the most bugs in the least time come first. */
const STAGES = [
  ['test/sim/model.test.ts'],
  ['test/ledger'],
  ['test', '--exclude=test/ledger/**', '--exclude=test/sim/**', '--exclude=test/{docs,tidy,release}/**'],
] as const

const root = fileURLToPath(new URL('..', import.meta.url))

/** Throws when tests fail although no bug is planted: every bug would be found then. */
export async function checkWithoutBug(): Promise<void> {
  const failed = await firstFailure(undefined, [...STAGES[0], ...STAGES[1]])
  if (failed !== undefined) throw new Error(`A test fails without a planted bug: ${failed}`)
}

async function firstFailure(bug: Mutation | undefined, tests: readonly string[]): Promise<string | undefined> {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-prove-sql-'))
  const report = join(directory, 'report.json')
  try {
    const child = spawn(
      process.execPath,
      [
        join(root, 'node_modules/vitest/vitest.mjs'),
        'run',
        ...tests,
        '--bail=1',
        '--reporter=json',
        `--outputFile=${report}`,
      ],
      { cwd: root, env: { ...process.env, SWITCHYARD_PLANTED_SQL_BUG: bug?.id }, stdio: ['ignore', 'ignore', 'pipe'] },
    )
    let errors = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors += text
    })
    const [code] = await once(child, 'close')
    if (code === 0) return undefined
    const failed = existsSync(report) ? failedTest(JSON.parse(readFileSync(report, 'utf8'))) : undefined
    if (failed === undefined) throw new Error(`${bug?.id}: vitest ended with ${code}, but no test failed: ${errors}`)
    return failed
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

interface Report {
  readonly testResults: readonly {
    readonly name: string
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[]
  }[]
}

function failedTest({ testResults }: Report): string | undefined {
  for (const { name, assertionResults } of testResults) {
    const failed = assertionResults.find(({ status }) => status === 'failed')
    if (failed !== undefined) return `${relative(root, name)}: ${failed.fullName}`
  }
  return undefined
}
