// `npm run test:postgres -- --version 15`: runs the tests of money, nodes and recovery on another version of PostgreSQL with its default
// settings. `--version all` runs every version, one after the other, and `--programs <directory>` the PostgreSQL of the machine, such as
// /usr/lib/postgresql/15/bin. `--quick` leaves out the tests that take most of the time. Each run replaces its row of the report.
// Further arguments name files or folders of tests to run instead, without a report.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Machine, readMachine } from '../../bench/machine.ts'
import { markdownPage, markdownTable } from '../../bench/markdown.ts'
import { reportPath, writeReport } from '../../bench/write-report.ts'
import { locatePrograms, POSTGRES_MAJOR } from '../../src/base/db/postgres-programs.ts'
import { CHANGED_SETTINGS } from '../harness/postgres-build.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const older = join(root, 'postgres-versions')

/**
 * With `SLOW_TESTS`, all but what runs the embedded PostgreSQL whatever the version. The simulator needs no PostgreSQL: only the
 * test that compares its model does.
 */
const TESTS = [
  ...['ledger', 'journal', 'jobs', 'payments', 'payouts', 'sim/model', 'usage', 'auth'],
  ...['db/pool', 'db/gateway-role', 'db/key-defaults', 'db/upgrade', 'db/few-connections', 'db/database-fault'],
].map(name => `test/${name}`)

/** Almost all of them start gateways as processes. `chaos` is the short run. */
const SLOW_TESTS = ['test/nodes', 'test/chaos']

const COLUMNS = 'option,PostgreSQL,`jit`,files,passed,failed,seconds,start,commit,load,what failed'.split(',')

/** The packages with the programs of older versions, and the file that depends on them. `npm test` needs 15. */
const packages: Record<string, { readonly importer: string; readonly name: string }> = {
  14: { importer: join(older, 'package.json'), name: 'postgres14' },
  15: { importer: join(root, 'package.json'), name: 'postgres15' },
  16: { importer: join(older, 'package.json'), name: 'postgres16' },
  17: { importer: join(older, 'package.json'), name: 'postgres17' },
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { version: { type: 'string' }, programs: { type: 'string' }, quick: { type: 'boolean', default: false } },
})
const tests = positionals.length > 0 ? positionals : values.quick ? TESTS : [...TESTS, ...SLOW_TESTS]

interface Result {
  readonly passed: number
  readonly failed: readonly string[]
  readonly files: number
  readonly seconds: number
}

for (const { option: chosen, programs } of chosenPrograms()) {
  const option = values.quick ? `${chosen} --quick` : chosen
  const machine = readMachine(null)
  const result = await runTests(programs)
  const { passed, failed, seconds } = result
  console.log(`${option}: ${passed} passed, ${failed.length} failed, ${seconds} s`)
  for (const name of failed) console.log(`  failed: ${name}`)
  if (failed.length > 0) process.exitCode = 1
  if (positionals.length === 0) console.log(`wrote ${addToReport(option, programs, machine, result)}`)
}

function chosenPrograms(): { option: string; programs: string }[] {
  if (values.programs !== undefined) return [{ option: `--programs ${values.programs}`, programs: values.programs }]
  const known = [...Object.keys(packages), POSTGRES_MAJOR]
  const versions = values.version === 'all' ? known : [values.version ?? '']
  return versions.map(version => {
    if (version === POSTGRES_MAJOR) return { option: `--version ${version}`, programs: locatePrograms() }
    const found = packages[version]
    if (found === undefined)
      throw new Error(`Give --version ${known.join(', ')} or all, or --programs with the directory of its programs.`)
    if (found.importer.startsWith(older)) install(found.name)
    const programs = locatePrograms(createRequire(found.importer).resolve(found.name))
    return { option: `--version ${version}`, programs }
  })
}

/** Installs the versions, unless this one is installed already. */
function install(name: string): void {
  const { dependencies } = JSON.parse(readFileSync(join(older, 'package.json'), 'utf8'))
  const path = join(older, 'node_modules', name, 'package.json')
  const installed = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).version : undefined
  if (dependencies[name].endsWith(`@${installed}`)) return
  // Not `npm ci`: it refuses the lock file if the registry lacks an optional package of another platform.
  const args = ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  execFileSync('npm', args, { cwd: older, stdio: 'inherit' })
}

async function runTests(programs: string): Promise<Result> {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-report-'))
  const output = join(directory, 'report.json')
  const startedMs = performance.now()
  try {
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${output}`]
    const child = spawn(join(root, 'node_modules/.bin/vitest'), ['run', ...reporters, ...tests], {
      cwd: root,
      env: { ...process.env, SWITCHYARD_TEST_POSTGRES: programs },
      stdio: 'inherit',
    })
    const [code] = await once(child, 'close')
    const files: TestFile[] = existsSync(output) ? JSON.parse(readFileSync(output, 'utf8')).testResults : []
    const all = files.flatMap(({ assertionResults }) => assertionResults)
    const failed = files.flatMap(failuresOf)
    return {
      passed: all.filter(({ status }) => status === 'passed').length,
      // An unhandled error belongs to no file.
      failed: code !== 0 && failed.length === 0 ? ['see the output'] : failed,
      files: files.length,
      seconds: Math.round((performance.now() - startedMs) / 1000),
    }
  } finally {
    rmSync(directory, { recursive: true })
  }
}

interface TestFile {
  readonly name: string
  readonly status: string
  readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[]
}

/** The failed tests of a file; the file itself if it cannot be loaded or a hook failed. */
function failuresOf({ name, status, assertionResults }: TestFile): string[] {
  const tests = assertionResults.filter(test => test.status === 'failed').map(({ fullName }) => fullName)
  return status === 'failed' && tests.length === 0 ? [relative(root, name)] : tests
}

/** Replaces the row of `option` and keeps the others, whose commit and time are in the row. */
function addToReport(option: string, programs: string, machine: Machine, result: Result): string {
  const version = execFileSync(join(programs, 'postgres'), ['--version'], { encoding: 'utf8' })
  const row = [
    `\`${option}\``,
    version.replace('postgres (PostgreSQL)', '').trim(),
    existsSync(join(programs, '../lib/llvmjit.so')) ? 'on' : 'not built in',
    result.files,
    result.passed,
    result.failed.length,
    result.seconds,
    machine.startedAt.slice(0, 16).replace('T', ' '),
    machine.commit,
    machine.loadBefore.toFixed(1),
    result.failed.join('; ').replaceAll('|', '\\|'),
  ].map(String)
  const path = join(root, reportPath('postgres'))
  const kept = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : []
  const rows = kept
    .filter(line => line.startsWith('| `--') && !line.startsWith(`| ${row[0]} |`))
    .map(line => line.slice(2, -2).split(' | '))
  const { cpu, cores, memoryGb, system, node } = machine
  return writeReport(
    'postgres',
    markdownPage([
      '# Versions of PostgreSQL',
      [
        '- command: `npm run test:postgres --` with the option of the row; times are in UTC',
        `- machine: ${cpu}, ${cores} cores, ${memoryGb} GB, ${system}, Node ${node}; the load average is that before the start`,
        `- settings: what \`initdb\` gives by default, but for ${Object.entries(CHANGED_SETTINGS)
          .map(([name, value]) => `\`${name} = ${value}\``)
          .join(' and ')}. \`jit\` is the default of the server; the sessions of Switchyard switch it off`,
        `- tests: \`${TESTS.join(' ')}\`; without \`--quick\` also \`${SLOW_TESTS.join(' ')}\``,
      ].join('\n'),
      markdownTable(
        COLUMNS,
        [...rows, row].sort(([a = ''], [b = '']) => a.localeCompare(b)),
      ),
    ]),
  )
}
