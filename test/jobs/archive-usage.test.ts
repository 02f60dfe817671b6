import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test, vi } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { queryRow } from '../../src/base/db/query-row.ts'
import { EXIT_BUSY } from '../../src/base/runtime/exit-codes.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { archiveUsage } from '../../src/jobs/archive-usage.ts'
import { unarchivedMonths } from '../../src/money/ledger/archive/usage-months.ts'
import { readScheduledRun } from '../../src/operator/scheduled-run.ts'
import { databaseUrl, sourceProgram } from '../cli/run-cli.ts'
import { useResource } from '../harness/use-resource.ts'
import { createArchiveWorld } from '../ledger/archive-world.ts'
import { eventually, startGatewayProcess } from '../nodes/gateway-process.ts'

const world = useResource(createArchiveWorld, created => created.drop(), 'test')
/** The role that serves requests, which may archive nothing itself. */
const gateway = useResource(
  async () => createPool(world.gatewayConnection, { max: 2, applicationName: 'gateway' }),
  (pool: Pool) => pool.end(),
  'test',
)
const home = useResource(
  async () => ({ path: await mkdtemp(join(tmpdir(), 'switchyard-keep-')) }),
  ({ path }) => rm(path, { recursive: true }),
  'test',
)
const log = { info: vi.fn(), error: vi.fn() }
/** The months before the last two that have a partition. March has no rows. */
const months = ['2026-01', '2026-02', '2026-03']
/** A busy machine may need minutes to start a command. */
const PATIENT_MS = 240_000

const directoryOf = (machine: string) => join(home.path, machine, 'archive')
const fileOf = (month: string, machine = 'a') => join(directoryOf(machine), `usage-${month}.ndjson.gz`)

/** Runs the job as a gateway on this machine does. */
function runJob(machine = 'a', { signal = new AbortController().signal, killed = new AbortController().signal } = {}) {
  const dataDir = join(home.path, machine)
  mkdirSync(dataDir, { recursive: true })
  const run = async (words: readonly string[]) => {
    const [node, ...program] = sourceProgram
    const child = spawn(node!, [...program, ...words], {
      cwd: dataDir,
      env: { PATH: process.env.PATH, DATABASE_URL: databaseUrl(world.connection), SWITCHYARD_DATA: dataDir },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    for (const end of [signal, killed]) end.addEventListener('abort', () => child.kill('SIGKILL'))
    const [errors, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
    return code === 0 ? null : { reason: errors.trim().split('\n').at(-1) ?? '', isBusy: code === EXIT_BUSY }
  }
  return archiveUsage({ sql: gateway, keepMonths: 1, run, clock: systemClock, log }, signal)
}

const problem = async () => (await readScheduledRun(gateway, 'usage_archive'))?.problem
const left = async () => (await unarchivedMonths(gateway, '2026-04')).map(({ month }) => month)

/** All charges: of rows, and of the sums that stand for archived rows. */
const sums = () =>
  queryRow(
    world.pool,
    `SELECT sum(requests)::bigint AS requests, sum(cost)::bigint AS cost, sum(share)::bigint AS share, sum(fee)::bigint AS fee FROM (
       SELECT 1 AS requests, cost_nanos AS cost, hoster_share_nanos AS share, fee_nanos AS fee FROM usage_row
       UNION ALL SELECT requests, cost_nanos, hoster_share_nanos, fee_nanos FROM usage_closing) all_of_them`,
  )

/** A transaction that reads a table, so that an archive waits for it. */
async function holdTable(table: string): Promise<() => Promise<void>> {
  const reader = await world.pool.pg.connect()
  await reader.query(`SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT FROM ${table} LIMIT 1`)
  return async () => {
    await reader.query('ROLLBACK')
    reader.release()
  }
}

const waitsIn = (name: string) =>
  eventually(async () => {
    const { rowCount } = await world.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'switchyard cli' AND query LIKE $1`,
      [`SELECT ${name}%`],
    )
    return rowCount === 1 ? true : undefined
  }, PATIENT_MS)

/** The crash of a command takes its sessions too. */
const endSessions = () =>
  world.pool.query(
    `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'switchyard cli'`,
  )

test('of several gateways, one archives all months that are not kept, and each once', async () => {
  const before = await sums()
  const env = {
    DATABASE_URL: databaseUrl(world.gatewayConnection),
    DATABASE_OWNER_URL: databaseUrl(world.connection),
    DATABASE_DESK_URL: databaseUrl(world.deskConnection),
    SWITCHYARD_MASTER_KEY: '5'.repeat(64),
  }
  const [archives, exports] = ['archives', 'exports'].map(name => join(home.path, name)) as [string, string]
  mkdirSync(exports)
  const start = async (name: string) => {
    const directory = join(home.path, name)
    mkdirSync(directory)
    const usage = `{ keep_months: 1, archive_directory: ${archives}, export_to: ${exports} }`
    const settings = `detect: { enabled: false }\nusage: ${usage}\n`
    writeFileSync(join(directory, 'switchyard.yaml'), settings)
    return startGatewayProcess({ directory, env })
  }
  const gateways = await Promise.all(['a', 'b'].map(start))
  try {
    await world.pool.query(
      "SELECT graphile_worker.add_job(task) FROM generate_series(1, 3), unnest(ARRAY['archive_usage', 'export_usage']) task",
    )
    await eventually(async () => {
      const { rowCount } = await world.pool.query(
        "SELECT FROM graphile_worker.jobs WHERE task_identifier IN ('archive_usage', 'export_usage')",
      )
      return rowCount === 0 ? true : undefined
    }, PATIENT_MS)
  } finally {
    await Promise.all(gateways.map(each => each.stop()))
  }
  expect(await left()).toEqual([])
  // Yesterday, or also the day before when midnight has passed since.
  expect(readdirSync(exports)[0]).toMatch(/^usage-\d{4}-\d\d-\d\d\.parquet$/)
  const { rows } = await world.pool.query(
    `SELECT subject, detail->>'directory' AS directory, detail->>'file' AS file FROM audit_entry WHERE action = 'usage.archived' ORDER BY entry_id`,
  )
  expect(rows).toEqual(
    months.map(month => ({
      subject: month,
      directory: archives,
      file: `usage-${month}.ndjson.gz`,
    })),
  )
  for (const { file } of rows) expect(readdirSync(archives)).toContain(file)
  expect(await sums()).toEqual(before)
  expect(await world.violations()).toEqual([])
})

test('a second machine does not archive at the same time', async () => {
  const release = await holdTable('usage_event')
  const first = runJob('a')
  await waitsIn('freeze_usage_month')
  await runJob('b')
  expect(await problem(), 'no run failed').toBe(undefined)
  const reason = 'Another command archives usage rows. Wait until it has ended.'
  expect(log.info).toHaveBeenLastCalledWith({ reason }, 'another process archives usage rows; trying again tomorrow')
  await release()
  await first
  expect(await problem()).toBe(null)
  expect([existsSync(fileOf('2026-01', 'a')), existsSync(fileOf('2026-01', 'b'))]).toEqual([true, false])
  await runJob('b')
  expect(await problem()).toBe(null)
})

test('a full disk, or a directory that cannot be written, is reported, and loses nothing', async () => {
  const before = await sums()
  mkdirSync(join(home.path, 'a'))
  writeFileSync(directoryOf('a'), 'a file')
  await runJob()
  expect(await problem()).toMatch(/^Cannot write to .*archive: .*\. Nothing was archived\.$/)
  expect(await left()).toEqual(months)
  rmSync(directoryOf('a'))

  mkdirSync(directoryOf('a'))
  symlinkSync('/dev/full', `${fileOf('2026-01')}.partial`)
  await runJob()
  expect(await problem()).toMatch(/^Cannot archive 2026-01: cannot write to .*no space left on device/)
  expect(log.error).toHaveBeenLastCalledWith(
    { reason: await problem(), months },
    'usage rows could not be archived; trying again tomorrow',
  )
  expect(await left()).toEqual(months)
  expect(await sums()).toEqual(before)
  expect(await world.violations()).toEqual([])

  await runJob()
  expect(await problem()).toBe(null)
  expect(log.info).toHaveBeenLastCalledWith({ months }, 'archived usage rows')
  expect(await left()).toEqual([])
  expect(await sums()).toEqual(before)
  expect(await world.violations()).toEqual([])
})

test.for([
  ['before the freeze', 'usage_event', 'freeze_usage_month'],
  ['before the sums', 'usage_frozen', 'finish_usage_archive'],
] as const)('kill -9 of the command %s loses nothing, and the next run goes on', async ([, table, statement]) => {
  const before = await sums()
  const release = await holdTable(table)
  const kill = new AbortController()
  const running = runJob('a', { killed: kill.signal })
  await waitsIn(statement)
  kill.abort()
  await running
  await endSessions()
  await release()
  expect(await problem()).not.toBe(null)
  expect(await left()).toEqual(months)
  expect(await sums()).toEqual(before)
  expect(await world.violations()).toEqual([])
  await runJob()
  expect(await problem()).toBe(null)
  expect(await left()).toEqual([])
  expect(await sums()).toEqual(before)
  expect(await world.violations()).toEqual([])
})

test('a gateway that stops meanwhile reports nothing, and leaves the job to the queue', async () => {
  const release = await holdTable('usage_event')
  const stop = new AbortController()
  const running = expect(runJob('a', { signal: stop.signal })).rejects.toThrow('abort')
  await waitsIn('freeze_usage_month')
  stop.abort()
  await running
  await endSessions()
  await release()
  expect(await readScheduledRun(gateway, 'usage_archive')).toBe(null)
  await runJob()
  expect(await left()).toEqual([])
})

test('a month that is kept stays, and a run without work is noted', async () => {
  const run = vi.fn()
  await archiveUsage({ sql: gateway, keepMonths: 1_200, run, clock: systemClock, log }, new AbortController().signal)
  expect(run).not.toHaveBeenCalled()
  expect(await problem()).toBe(null)
  expect(await left()).toEqual(months)
})
