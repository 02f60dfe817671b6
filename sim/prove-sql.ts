import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, existsSync, globSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Mutation } from './mutations.ts'
import { plantSql } from './plant-sql.ts'

/** The first test that failed with a planted bug. */
export interface SqlFinding {
  readonly bug: string
  /** Relative to the root of the repository. */
  readonly file: string
  readonly test: string
  readonly error: string
  readonly cause: string
}

export interface SqlProofOptions {
  /** How many bugs are tried at a time, each on a PostgreSQL of its own. */
  readonly jobs: number
  /** Keeps the findings of an interrupted run. A bug is tried again when its function has changed. */
  readonly resume: string | undefined
  found(bug: Mutation, finding: SqlFinding): void
}

/**
 * Test files. Those that find the most bugs in the least time come first: the comparison with the model, the tests of
 * single functions and of rights, the oracle of the ledger, which takes as long as all of these, then those of other
 * parts that check amounts.
 */
const STAGES = [
  ['test/sim/model.test.ts'],
  ['test/ledger/{lock,day,bulk,key,member,labels,shares}*.test.ts', 'test/db/gateway-role.test.ts'],
  ['test/ledger/{node,reaper,accounts,refund,settle}*.test.ts', 'test/payments/lost-answers.test.ts'],
  ['test/ledger/oracle.test.ts'],
  ['test/ledger/{audit,broken,last,lost,outages,second,usage}*.test.ts'],
  [
    'test/usage/*.test.ts',
    'test/billing/*.test.ts',
    'test/jobs/*.test.ts',
    'test/regression/balances*.test.ts',
    'test/api/{credits,keys,request-counts,usage}*.test.ts',
    'test/api/chat-completions.{402,429,idempotency}*.test.ts',
  ],
]

const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * Plants each bug in the SQL functions of a real PostgreSQL and runs the tests of one stage after the other until one
 * fails. Returns the findings by the id of the bug. A test that only timed out must fail twice, and not at its own limit,
 * since a busy machine can cause a timeout. Throws when a test of a stage that finds a bug fails without one.
 */
export async function proveSql(bugs: readonly Mutation[], options: SqlProofOptions): Promise<Map<string, SqlFinding>> {
  const findings = new Map<string, SqlFinding>()
  const earlier = readLines<[string, SqlFinding]>(options.resume)
  const record = (bug: Mutation, finding: SqlFinding) => {
    findings.set(bug.id, finding)
    options.found(bug, finding)
  }
  for (const [fingerprint, finding] of earlier) {
    const bug = bugs.find(candidate => fingerprintOf(candidate) === fingerprint)
    if (bug !== undefined) record(bug, finding)
  }
  for (const stage of STAGES) {
    const files = globSync(stage, { cwd: root }).map(file => join(root, file))
    const waiting = bugs.filter(({ id }) => !findings.has(id))
    const isUsed = waiting.length > 0 || findings.values().some(({ file }) => files.includes(join(root, file)))
    if (isUsed) await checkWithoutBug(files)
    await Promise.all(
      Array.from({ length: options.jobs }, async () => {
        for (let chunk = waiting.splice(0, CHUNK); chunk.length > 0; chunk = waiting.splice(0, CHUNK)) {
          for (const finding of await confirmed(await runTests(chunk, files), files)) {
            const bug = chunk.find(({ id }) => id === finding.bug)!
            record(bug, finding)
            if (options.resume !== undefined)
              appendFileSync(options.resume, `${JSON.stringify([fingerprintOf(bug), finding])}\n`)
          }
        }
      }),
    )
  }
  return findings

  async function confirmed(found: readonly SqlFinding[], files: readonly string[]): Promise<SqlFinding[]> {
    const late = bugs.filter(({ id }) => found.some(finding => finding.bug === id && isTimeout(finding)))
    const again = late.length === 0 ? [] : await runTests(late, files)
    return [...found.filter(finding => !isTimeout(finding)), ...again.filter(({ error }) => !LIMIT.test(error))]
  }
}

/** How many bugs one PostgreSQL is started for. */
const CHUNK = 8

/** A test that reaches its own limit finds nothing: the machine may be too busy. */
const LIMIT = /^(Test|Hook)TimeoutError/

/** The errors of a test that ends at its own limit, of `expect.poll`, and of waits in test/harness. */
function isTimeout({ error, cause }: SqlFinding): boolean {
  return /timed? ?out|in time/i.test(`${error} ${cause}`)
}

/** Throws when a test fails without a bug: every bug would be found then. */
async function checkWithoutBug(files: readonly string[]): Promise<void> {
  const [failure] = await runTests([{ id: 'no bug' }], files)
  if (failure !== undefined)
    throw new Error(`A test fails without a bug: ${failure.file}: ${failure.test}: ${failure.error}`)
}

/** Runs the files once for each bug, until a test fails. */
async function runTests(bugs: readonly Pick<Mutation, 'id'>[], files: readonly string[]): Promise<SqlFinding[]> {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-prove-sql-'))
  const path = join(directory, 'findings.jsonl')
  try {
    const task = { bugs: bugs.map(({ id }) => id), files, findings: path }
    const vitest = join(root, 'node_modules/vitest/vitest.mjs')
    const limits = ['--testTimeout=60000', '--hookTimeout=60000']
    const child = spawn(process.execPath, [vitest, 'run', '--maxWorkers=1', '--reporter=dot', ...limits], {
      cwd: root,
      env: { ...process.env, SWITCHYARD_PLANTED_SQL_BUGS: JSON.stringify(task) },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    const [code] = await once(child, 'close')
    const found = readLines<SqlFinding>(path)
    if (code !== 0 && found.length === 0) throw new Error(`The tests failed, but not with a planted bug: ${output}`)
    return found
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Changes with the SQL function in which the bug is planted. */
function fingerprintOf(bug: Mutation): string {
  return `${bug.id} ${hash('sha256', plantSql(bug))}`
}

function readLines<Line>(path: string | undefined): Line[] {
  if (path === undefined || !existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines.filter(line => line !== '').map(line => JSON.parse(line) as Line)
}
