import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Mutation } from './mutations.ts'

/**
 * Plants one bug in the SQL functions of a real PostgreSQL and runs the tests until one fails. Returns the name of that test and its error;
 * undefined when the bug survives. A test that only timed out must fail twice, since a busy machine can cause the first timeout.
 */
export async function proveSql(bug: Mutation): Promise<string | undefined> {
  for (const tests of STAGES) {
    const failed = await firstFailure(bug, tests)
    if (failed === undefined) continue
    if (!failed.isTimeout) return shown(failed)
    const again = await firstFailure(bug, [failed.file])
    if (again !== undefined) return shown(again)
  }
  return undefined
}

/**
 * Arguments of vitest. The tests that find the most bugs in the least time come first: the comparison with the model, the oracle of the ledger, its
 * other tests, then those of other parts that check amounts.
 */
const STAGES = [
  ['test/sim/model.test.ts'],
  ['test/ledger/oracle.test.ts'],
  ['test/ledger'],
  [
    'test/usage',
    'test/billing',
    'test/jobs',
    'test/regression/balances',
    'test/api/credits',
    'test/api/request-counts',
    'test/api/keys',
    'test/api/usage',
    'test/api/chat-completions.402',
    'test/api/chat-completions.429',
    'test/api/chat-completions.idempotency',
  ],
] as const

/** The errors of a test that ends at its own limit, of `expect.poll`, and of waits in test/harness. */
const TIMEOUT = /time[d]?[ -]?out|in time/i

const root = fileURLToPath(new URL('..', import.meta.url))

/** Throws when tests fail although no bug is planted: every bug would be found then. */
export async function checkWithoutBug(): Promise<void> {
  const failed = await firstFailure(undefined, STAGES.flat())
  if (failed !== undefined) throw new Error(`A test fails without a planted bug: ${shown(failed)}`)
}

interface Failure {
  /** Relative to the root of the repository. */
  readonly file: string
  readonly test: string
  readonly message: string
  readonly isTimeout: boolean
}

function shown({ file, test, message }: Failure): string {
  return `${file}: ${test}: ${message}`
}

async function firstFailure(bug: Mutation | undefined, tests: readonly string[]): Promise<Failure | undefined> {
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
        '--maxWorkers=1',
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
    /** The error of a hook or of the file itself. */
    readonly message: string
    readonly assertionResults: readonly {
      readonly status: string
      readonly fullName: string
      readonly failureMessages: readonly string[] | null
    }[]
  }[]
}

function failedTest({ testResults }: Report): Failure | undefined {
  for (const { name, message, assertionResults } of testResults) {
    const file = relative(root, name)
    const failed = assertionResults.find(({ status }) => status === 'failed')
    if (failed !== undefined) return failure(file, failed.fullName, failed.failureMessages?.join('\n') ?? message)
    if (message !== '') return failure(file, 'before its tests', message)
  }
  return undefined
}

function failure(file: string, test: string, text: string): Failure {
  const line = text.split('\n', 1)[0]!
  const message = line.length > MESSAGE_CHARS_MAX ? `${line.slice(0, MESSAGE_CHARS_MAX)}...` : line
  return { file, test, message, isTimeout: TIMEOUT.test(text) }
}

const MESSAGE_CHARS_MAX = 160
