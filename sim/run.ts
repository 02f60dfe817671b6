// Runs the money code on simulated time, disks, networks and a simulated database: `npm run sim -- --seeds 1000 --from 1`.
// With --prove it plants each bug of mutations.ts alone and searches for it. With --prove-sql it plants each bug of sql-mutations.ts in a real
// PostgreSQL and runs the tests; with --prove-code it plants those of code-mutations.ts and runs a test for each.
import { parseArgs } from 'node:util'
import { readMachine, reportHead } from '../bench/machine.ts'
import { markdownPage, markdownTable } from '../bench/markdown.ts'
import { type ReportKind, writeReport } from '../bench/write-report.ts'
import { codeMutations } from './code-mutations.ts'
import { type Mutation, mutations } from './mutations.ts'
import { prove } from './prove.ts'
import { checkWithoutBugs, proveCode } from './prove-code.ts'
import { proveSql } from './prove-sql.ts'
import { simulate } from './simulate.ts'
import { sqlMutations } from './sql-mutations.ts'

const values = readArguments()

// Stack traces take a tenth of the time. Only the run of a single seed shows them.
if (values.seed === undefined) Error.stackTraceLimit = 0

/** Shorter runs write no report. */
const REPORT_SEEDS_MIN = 10_000

const machine = readMachine(null)
const startedMs = performance.now()
const isGood = values['prove-sql']
  ? await proveAllSql()
  : values['prove-code']
    ? await proveAllCode()
    : values.prove
      ? await proveAllInSimulator()
      : await simulateAll()
process.exitCode = isGood ? 0 : 1

async function simulateAll(): Promise<boolean> {
  const first = values.seed ?? values.from
  const last = values.seed === undefined ? first + (values.seeds ?? 1_000) - 1 : first
  const sums = new Map<string, number>()
  let failures = 0
  for (let seed = first; seed <= last; seed++) {
    const { failure, counts, fingerprint, events } = await simulate(
      seed,
      values.trace ? line => console.log(line) : undefined,
    )
    for (const [name, count] of [...Object.entries(counts), ['events', events] as const])
      sums.set(name, (sums.get(name) ?? 0) + count)
    if (failure !== undefined) {
      failures++
      console.log(`seed ${seed}: ${failure.rule} at ${failure.atMs.toFixed(3)} ms: ${failure.why}  [${fingerprint}]`)
    }
    if (seed % 64 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  const seeds = last - first + 1
  console.log(
    `${seeds} seeds, ${failures} failures, ${elapsedS()} s: ${[...sums].map(([name, count]) => `${count} ${name}`).join(', ')}`,
  )
  if (seeds >= REPORT_SEEDS_MIN) {
    const report = markdownPage([
      reportHead('Simulator', commandLine(), machine, [
        `- result: ${seeds} seeds, ${failures} failures, ${elapsedS()} s`,
        '- simulated faults and checked invariants: [docs/simulator.md](../../docs/simulator.md)',
      ]),
      markdownTable(
        ['event', 'count'],
        [...sums].map(([name, count]) => [name, count.toLocaleString('en')]),
      ),
    ])
    console.log(`wrote ${writeReport('simulator', report)}`)
  }
  if (failures > 0) console.log('To print each event of one seed: npm run sim -- --seed <seed> --trace')
  return failures === 0
}

async function proveAllInSimulator(): Promise<boolean> {
  const seeds = values.seeds ?? 20_000
  const bugs = chosenOf(mutations)
  const waiting = [...bugs]
  const found = new Map<string, string>()
  await Promise.all(
    Array.from({ length: values.jobs }, async () => {
      for (let bug = waiting.shift(); bug !== undefined; bug = waiting.shift()) {
        const finding = await prove(bug, values.from, seeds)
        if (finding === undefined) console.log(`${bug.id.padEnd(44)} SURVIVED`)
        else foundBy(found, bug, `${finding.rule}, at seed ${finding.seed}`)
      }
    }),
  )
  return reportProof({
    bugs,
    found,
    limit: ` within ${seeds} seeds each`,
    kind: 'planted-bugs',
    title: 'Planted bugs',
    method:
      'each bug is planted alone, and seeds run until an invariant breaks: [docs/simulator.md](../../docs/simulator.md)',
    finder: 'broken invariant',
  })
}

async function proveAllSql(): Promise<boolean> {
  const bugs = chosenOf(sqlMutations)
  const found = new Map<string, string>()
  await proveSql(bugs, {
    jobs: values.jobs,
    resume: values.resume,
    found: (bug, { file, test, error, cause }) =>
      foundBy(found, bug, `${file}: ${test}: ${shortened(error)}${cause && ` (${shortened(cause)})`}`),
  })
  return reportProof({
    bugs,
    found,
    limit: '',
    kind: 'planted-sql-bugs',
    title: 'Planted SQL bugs',
    method:
      'each bug is planted alone in a real PostgreSQL, and tests run until one fails: [docs/simulator.md](../../docs/simulator.md#bugs-in-the-sql)',
    finder: 'first test that fails',
  })
}

async function proveAllCode(): Promise<boolean> {
  const bugs = chosenOf(codeMutations)
  const found = new Map<string, string>()
  await checkWithoutBugs(new Set(bugs.map(({ test }) => test)))
  for (const bug of bugs) {
    const failed = await proveCode(bug)
    if (failed === undefined) console.log(`${bug.id.padEnd(44)} SURVIVED`)
    else foundBy(found, bug, `${bug.test}: ${shortened(failed)}`)
  }
  return reportProof({
    bugs,
    found,
    limit: '',
    kind: 'planted-code-bugs',
    title: 'Planted bugs in code',
    method:
      'each bug is planted alone while its test loads the source: [docs/simulator.md](../../docs/simulator.md#bugs-in-code)',
    finder: 'first test that fails',
  })
}

function chosenOf<Bug extends Mutation>(bugs: readonly Bug[]): readonly Bug[] {
  return bugs.filter(({ id }) => values.only?.includes(id) ?? true)
}

function foundBy(found: Map<string, string>, { id }: Mutation, finder: string): void {
  found.set(id, finder)
  console.log(`${id.padEnd(44)} found by ${finder}`)
}

/** The first line of an error, without what varies from run to run at its end. */
function shortened(text: string): string {
  const line = text.split('\n', 1)[0]!
  return line.length > 120 ? `${line.slice(0, 120)}...` : line
}

interface Proof {
  readonly bugs: readonly Mutation[]
  /** What found each bug, by its id. The others survived. */
  readonly found: ReadonlyMap<string, string>
  /** How long each bug was searched for. */
  readonly limit: string
  /** Names the report. */
  readonly kind: ReportKind
  readonly title: string
  readonly method: string
  readonly finder: string
}

function reportProof({ bugs, found, limit, kind, title, method, finder }: Proof): boolean {
  const percent = ((found.size / bugs.length) * 100).toFixed(1)
  const summary = `${bugs.length} planted bugs, ${found.size} found (${percent} %)${limit}, ${elapsedS()} s`
  console.log(summary)
  const survivors = bugs.filter(({ id }) => !found.has(id))
  if (survivors.length > 0) console.log(`survived: ${survivors.map(({ id }) => id).join(', ')}`)
  if (values.only === undefined) {
    const report = markdownPage([
      reportHead(title, commandLine(), machine, [`- result: ${summary}`, `- ${method}`]),
      markdownTable(
        ['planted bug', 'what goes wrong', finder],
        bugs.map(({ id, bug }) => [id, bug, found.get(id)?.replaceAll('|', '\\|') ?? '**survived**']),
      ),
    ])
    console.log(`wrote ${writeReport(kind, report)}`)
  }
  return survivors.length === 0
}

function commandLine(): string {
  return `npm run sim -- ${process.argv.slice(2).join(' ')}`
}

function elapsedS(): string {
  return ((performance.now() - startedMs) / 1000).toFixed(1)
}

/** Exits with 2 for invalid arguments: a run of zero seeds would report no failure. */
function readArguments() {
  try {
    const { values } = parseArgs({
      options: {
        seeds: { type: 'string' },
        from: { type: 'string', default: '1' },
        seed: { type: 'string' },
        trace: { type: 'boolean', default: false },
        prove: { type: 'boolean', default: false },
        'prove-sql': { type: 'boolean', default: false },
        'prove-code': { type: 'boolean', default: false },
        only: { type: 'string', multiple: true },
        resume: { type: 'string' },
        jobs: { type: 'string', default: '1' },
      },
    })
    const [bugs, file] = values['prove-sql']
      ? [sqlMutations, 'sim/sql-mutations.ts']
      : values['prove-code']
        ? [codeMutations, 'sim/code-mutations.ts']
        : [mutations, 'sim/mutations.ts']
    const unknown = values.only?.find(name => !bugs.some(({ id }) => id === name))
    if (unknown !== undefined) throw new Error(`--only ${unknown}: no such planted bug. The ids are in ${file}.`)
    return {
      ...values,
      seeds: values.seeds === undefined ? undefined : count('seeds', values.seeds),
      from: count('from', values.from),
      seed: values.seed === undefined ? undefined : count('seed', values.seed),
      jobs: count('jobs', values.jobs),
    }
  } catch (error) {
    console.error((error as Error).message)
    process.exit(2)
  }
}

function count(name: string, text: string): number {
  if (!/^[1-9]\d{0,11}$/.test(text)) throw new Error(`--${name} must be a whole number of at least 1, not ${text}.`)
  return Number(text)
}
