import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { lowestUuidAt } from '../../src/base/runtime/uuid.ts'
import { listUsageMonths } from '../../src/money/ledger/archive/usage-months.ts'
import { eventually } from '../chaos/eventually.ts'
import { useResource } from '../harness/use-resource.ts'
import { createArchiveWorld } from '../ledger/archive-world.ts'
import { databaseUrl, sourceProgram } from './run-cli.ts'
import { useCli } from './use-cli.ts'

const world = useResource(createArchiveWorld, created => created.drop(), 'test')
const cli = useCli({
  get connection() {
    return world.connection
  },
})

const out = useResource(
  async () => ({ path: await mkdtemp(join(tmpdir(), 'switchyard-archive-')) }),
  ({ path }) => rm(path, { recursive: true }),
  'test',
)

const januaryIds = [Date.UTC(2026, 0), Date.UTC(2026, 1)].map(lowestUuidAt)
const archive = (...args: string[]) => cli.run(['usage', 'archive', '--out', out.path, ...args])
const fileOf = (month: string) => join(out.path, `usage-${month}.ndjson.gz`)

test('a dry run changes nothing; then both months are archived, and cannot be archived again', async () => {
  const dry = await archive('--before', '2026-03', '--dry-run', '--json')
  const january = { month: '2026-01', rows: 4, kept_rows: 0, cost_usd: '0.000000272', freed_bytes: expect.any(Number) }
  const february = { month: '2026-02', rows: 2, kept_rows: 0, cost_usd: '0.00000053', freed_bytes: expect.any(Number) }
  const noFile = { file: null, file_bytes: null, sha256: null }
  expect(JSON.parse(dry.stdout)).toEqual({
    directory: out.path,
    dry_run: true,
    months: [january, february].map(month => ({ ...month, ...noFile })),
  })
  expect(await listUsageMonths(world.pool, '2026-03')).toHaveLength(2)
  expect(readdirSync(out.path)).toEqual([])

  expect(await archive('--before', '2026-03')).toMatchObject({ code: 2, stderr: expect.stringMatching(/Add --yes/) })
  const done = await archive('--before', '2026-03', '--yes', '--json')
  expect(done.stderr).toMatch(/Archiving 2026-01: 4 rows/)
  const { months } = JSON.parse(done.stdout)
  expect(months.map(({ file }: { file: string }) => file)).toEqual(['2026-01', '2026-02'].map(fileOf))
  const { rows: entries } = await world.pool.query(
    "SELECT subject, detail->>'sha256' AS sha256 FROM audit_entry WHERE action = 'usage.archived' ORDER BY entry_id",
  )
  expect(entries).toEqual(
    months.map(({ month, sha256 }: { month: string; sha256: string }) => ({ subject: month, sha256 })),
  )
  expect(
    gunzipSync(readFileSync(fileOf('2026-02')))
      .toString()
      .trimEnd()
      .split('\n'),
  ).toHaveLength(2)
  expect(await archive('--before', '2026-03', '--yes')).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/No earlier month has usage rows/),
  })

  const refund = await cli.run(['ledger', 'refund', world.january[0]!, '--reason', 'x'])
  expect(refund).toMatchObject({ code: 1, stdout: '' })
  expect(refund.stderr).toMatch(/usage rows of 2026-01 are archived in usage-2026-01\.ndjson\.gz, so the request/)
  expect(await cli.run(['ledger', 'audit'])).toMatchObject({ code: 0 })
})

test('months that can still be refunded are refused, and so is a ledger with violations', async () => {
  const nextMonth = new Date(Date.now() + 31 * 86_400_000).toISOString().slice(0, 7)
  expect(await archive('--before', nextMonth, '--yes')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /can be refunded for 30 days after their month\. Today, months before \d{4}-\d{2} can/,
    ),
  })
  expect(await archive('--before', '2026-13')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/must be a month/),
  })
  await world.pool.query('UPDATE balance SET posted_nanos = posted_nanos + 1')
  expect(await archive('--before', '2026-02', '--yes')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/found violations \(balances_equal_entries\)/),
  })
  expect(await listUsageMonths(world.pool, '2026-02')).toMatchObject([{ isFrozen: false }])
  await world.pool.query('UPDATE balance SET posted_nanos = posted_nanos - 1')

  // A row that was falsified after an archive began, and was interrupted.
  await world.pool.query('SELECT freeze_usage_month($1, $2, $3)', ['2026-01-01', ...januaryIds])
  await world.pool.query(
    'UPDATE usage_frozen SET cost_nanos = cost_nanos - 1, fee_nanos = fee_nanos - 1 WHERE cost_nanos = 70',
  )
  const falsified = await archive('--before', '2026-02', '--yes')
  expect(falsified).toMatchObject({ code: 1, stderr: expect.stringMatching(/found violations \(.*charges_equal_/) })
  expect(await listUsageMonths(world.pool, '2026-02')).toMatchObject([{ isFrozen: true }])
  expect(readdirSync(out.path)).toEqual([])
})

/** Where an archive stops because a reader of these tables makes it wait, and what is true then. */
const stops = [
  ['before the freeze', 'usage_event', async () => await isWaiting('freeze_usage_month'), { isFrozen: false }],
  [
    'before the sums',
    'usage_frozen',
    async () => existsSync(fileOf('2026-01')) && (await isWaiting('finish_usage_archive')),
    { isFrozen: true },
  ],
] as const

test.for(stops)(
  'kill -9 %s leaves a clean ledger, and the next call archives the month',
  async ([, table, isReached, left]) => {
    const reader = await world.pool.pg.connect()
    await reader.query(`SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT FROM ${table} LIMIT 1`)
    const [node, ...program] = sourceProgram
    const child = spawn(node!, [...program, 'usage', 'archive', '--out', out.path, '--before', '2026-02', '--yes'], {
      cwd: cli.directory,
      env: { PATH: process.env.PATH, DATABASE_URL: databaseUrl(world.connection), SWITCHYARD_DATA: cli.directory },
      stdio: 'ignore',
    })
    const exit = once(child, 'exit')
    try {
      await eventually('the archive waits', isReached, { timeoutMs: 15_000 })
    } finally {
      child.kill('SIGKILL')
      await exit
      // The crash takes its session too.
      await world.pool.query(
        `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'switchyard cli'`,
      )
      await reader.query('ROLLBACK')
      reader.release()
    }
    expect(await listUsageMonths(world.pool, '2026-02')).toMatchObject([{ ...left, requests: 4n }])
    expect(await world.violations()).toEqual([])
    expect(await archive('--before', '2026-02', '--yes')).toMatchObject({ code: 0 })
    expect(
      gunzipSync(readFileSync(fileOf('2026-01')))
        .toString()
        .trimEnd()
        .split('\n'),
    ).toHaveLength(4)
    expect(await listUsageMonths(world.pool, '2026-02')).toEqual([])
    expect(await world.violations()).toEqual([])
  },
)

async function isWaiting(name: string): Promise<boolean> {
  const { rowCount } = await world.pool.query(
    `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'switchyard cli' AND query LIKE $1`,
    [`SELECT ${name}%`],
  )
  return rowCount === 1
}
