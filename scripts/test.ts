// `npm test` runs this script: every check, then every test. `npm run check` runs the checks only. With other arguments, which go to vitest,
// only those tests run: npm test -- test/api -t 'streams'.
import { type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { killOnExit } from '../test/harness/clean-up-on-exit.ts'
import { adviceOnWords } from './plain-words.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const programs = join(root, 'node_modules', '.bin')
const sources = ['src', 'console/src', 'test', 'sim', 'bench', 'scripts', 'demo'].filter(name =>
  existsSync(join(root, name)),
)

const checks: Record<string, string[]> = {
  'biome (format, lint)': ['biome', 'check', '--error-on-warnings', '.'],
  'tsc (types)': ['tsc', '--noEmit', '-p', '.'],
  'tsc (types of the console)': ['tsc', '--noEmit', '-p', 'console'],
  'dependency-cruiser (import directions)': ['depcruise', '--config', '.dependency-cruiser.cjs', ...sources],
  'knip (unused files, exports, packages)': ['knip', '--no-progress'],
}

// The terminal sends Ctrl-C to the children too, so this process only waits until they have cleaned up. It forwards a SIGTERM.
const running = new Set<ReturnType<typeof spawn>>()
process.on('SIGINT', () => {})
process.on('SIGTERM', () => {
  for (const child of running) child.kill('SIGTERM')
})

const args = process.argv.slice(2)
const isCheck = args[0] === '--check'
const chosen = isCheck || args.length === 0 ? Object.entries(checks) : []
const outcomes = await Promise.all(chosen.map(([title, command]) => check(title, command)))
if (chosen.length > 0) for (const line of adviceOnWords()) console.log(`report ${line}`)
const tests = isCheck ? { passed: outcomes.filter(Boolean).length, failed: 0 } : await runTests(args)
const failed = outcomes.filter(passed => !passed).length + tests.failed
process.exitCode = failed === 0 ? 0 : 1
console.log(`${tests.passed} passed, ${failed} failed`)

/** Runs one static check and prints its result, and its output if it failed. */
async function check(title: string, command: string[]): Promise<boolean> {
  const startedMs = performance.now()
  const child = start(command, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', chunk => {
      output += chunk
    })
  const code = await end(child)
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1)
  console.log(`${code === 0 ? 'ok    ' : 'FAILED'} ${title} (${seconds} s)`)
  if (code !== 0) console.log(output.trimEnd())
  return code === 0
}

type Outcome = { passed: number; failed: number }

/**
 * Runs the tests. After a run of all of them, up to three files that failed run again, alone: what passes then is not counted as failed, but named,
 * because it has found a race of the product or of the test (docs/decisions/2026-11-28-failed-tests-run-again-alone.md).
 */
async function runTests(args: string[]): Promise<Outcome> {
  const { files, ...first } = await runVitest(args)
  const failed = files.filter(({ status }) => status === 'failed')
  if (args.length > 0 || failed.length === 0 || failed.length > 3) return first
  const paths = failed.map(({ name }) => relative(root, name))
  console.log(`\nRunning again, alone: ${paths.join(', ')}`)
  const again = await runVitest([...paths, '--maxWorkers=1'])
  if (again.failed > 0) return first
  for (const test of failed.flatMap(({ assertionResults }) => assertionResults.filter(isFailed)))
    console.log(`UNSTABLE: passes alone, failed before. Repair it: ${test.fullName}`)
  return { passed: first.passed + first.failed, failed: 0 }
}

async function runVitest(args: string[]): Promise<Outcome & { files: TestFile[] }> {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-report-'))
  const path = join(directory, 'report.json')
  try {
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${path}`]
    const code = await end(start(['vitest', 'run', ...reporters, ...args], { stdio: 'inherit' }))
    const report: Report = existsSync(path)
      ? JSON.parse(readFileSync(path, 'utf8'))
      : { numPassedTests: 0, numFailedTests: 0, testResults: [] }
    const { passed, failed } = count(report)
    // An error outside of tests, such as an unhandled rejection, fails the run as well.
    return { passed, failed: failed === 0 && code !== 0 ? 1 : failed, files: report.testResults }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

type Report = { numPassedTests: number; numFailedTests: number; testResults: TestFile[] }
type TestFile = { name: string; status: string; assertionResults: { fullName: string; status: string }[] }

function count({ numPassedTests, numFailedTests, testResults }: Report): Outcome {
  // A file fails without a failed test if it cannot be loaded or its set-up throws.
  const brokenFiles = testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some(isFailed),
  )
  return { passed: numPassedTests, failed: numFailedTests + brokenFiles.length }
}

function isFailed({ status }: { status: string }): boolean {
  return status === 'failed'
}

function start([name = '', ...args]: string[], options: SpawnOptions) {
  const env = { ...process.env, PATH: `${programs}${delimiter}${process.env.PATH}` }
  const child = spawn(join(programs, name), args, { ...options, cwd: root, env })
  killOnExit(child)
  running.add(child)
  return child
}

async function end(child: ReturnType<typeof spawn>): Promise<number> {
  const [code] = await once(child, 'close')
  running.delete(child)
  return typeof code === 'number' ? code : 1
}
