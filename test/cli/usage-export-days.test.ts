import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parquetReadObjects } from 'hyparquet'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { noteWrittenDays } from '../../src/money/usage/events/export-days.ts'
import type { UsageEvent } from '../../src/money/usage/events/usage-event-columns.ts'
import { startScriptedS3 } from '../harness/scripted-s3.ts'
import { useResource } from '../harness/use-resource.ts'
import { createArchiveWorld, FEBRUARY_MS } from '../ledger/archive-world.ts'
import { eventually } from '../nodes/gateway-process.ts'
import { databaseUrl, sourceProgram } from './run-cli.ts'
import { useCli } from './use-cli.ts'

const world = useResource(createArchiveWorld, created => created.drop(), 'test')
const cli = useCli({
  get connection() {
    return world.connection
  },
})

/** A busy machine may need minutes to start a command. */
const PATIENT_MS = 240_000

let tests = 0
let place: string
beforeEach(() => {
  place = join(cli.directory, `days-${++tests}`)
  mkdirSync(place)
  configure(`usage: { export_to: ${place} }`)
})
afterEach(() => void vi.useRealTimers())

const configure = (yaml: string) => writeFileSync(join(cli.directory, 'switchyard.yaml'), `${yaml}\n`)
const today = (time: string) => vi.useFakeTimers({ toFake: ['Date'], now: new Date(time) })
const exportDays = () => cli.run(['usage', 'export-days', '--json'])

async function written() {
  const { code, stdout, stderr } = await exportDays()
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout).days as { day: string; file: string; rows: number; cost_usd: string }[]
}

async function readParquet(bytes: Uint8Array): Promise<UsageEvent[]> {
  return (await parquetReadObjects({ file: new Uint8Array(bytes).buffer })) as UsageEvent[]
}
const eventsOf = async (day: string) => readParquet(readFileSync(join(place, `usage-${day}.parquet`)))

function summed(events: readonly UsageEvent[]) {
  return { requests: BigInt(events.length), cost: events.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0n) }
}

async function booked(where: string) {
  const { rows } = await world.pool.query(
    `SELECT coalesce(sum(requests), 0)::bigint AS requests, coalesce(sum(cost_nanos), 0)::bigint AS cost FROM usage_day WHERE ${where}`,
  )
  return rows[0]
}

test('a day is written once, and again when a charge came late; missed days are made up for', async () => {
  today('2026-02-02T04:53:00Z')
  const file = 'usage-2026-02-01.parquet'
  expect(await written()).toEqual([{ day: '2026-02-01', file, rows: 2, cost_usd: '0.00000053' }])
  expect(summed(await eventsOf('2026-02-01'))).toEqual(await booked("day = '2026-02-01'"))
  expect(statSync(join(place, file)).mode & 0o777).toBe(0o600)
  expect(await written()).toEqual([])

  await world.serve(FEBRUARY_MS + 3_600_000, 77n)
  expect((await written()).map(({ day, rows }) => [day, rows])).toEqual([['2026-02-01', 3]])
  expect(summed(await eventsOf('2026-02-01'))).toEqual(await booked("day = '2026-02-01'"))
  expect(await written()).toEqual([])

  today('2026-02-05T04:53:00Z')
  expect((await written()).map(({ day, rows }) => [day, rows])).toEqual([
    ['2026-02-02', 0],
    ['2026-02-03', 0],
    ['2026-02-04', 0],
  ])
  expect(await eventsOf('2026-02-04')).toEqual([])
  expect(readdirSync(place)).toHaveLength(4)
})

test('the days of an archived month add up to the books', async () => {
  expect((await cli.run(['usage', 'archive', '--before', '2026-02', '--yes'])).code).toBe(0)
  today('2026-02-02T04:53:00Z')
  const day = { requests: '0', costNanos: '0' }
  await noteWrittenDays(world.pool, { target: `${place} parquet`, days: { '2026-01-14': day } })
  const days = await written()
  expect([days.length, days[0]?.day]).toEqual([18, '2026-01-15'])
  const all = await Promise.all(days.map(each => eventsOf(each.day)))
  expect(summed(all.flat())).toEqual(await booked('true'))
})

test('a directory that is missing or full is named, and nothing is noted', async () => {
  today('2026-02-02T04:53:00Z')
  symlinkSync('/dev/full', join(place, 'usage-2026-02-01.parquet.unfinished'))
  const full = await exportDays()
  expect(full).toMatchObject({ code: 1, stderr: expect.stringMatching(/Cannot write .*parquet: no space left/) })
  expect(readdirSync(place)).toEqual([])
  configure(`usage: { export_to: ${join(place, 'missing')} }`)
  expect(await exportDays()).toMatchObject({ code: 1, stderr: expect.stringContaining('mount its disk') })
  configure(`usage: { export_to: ${place} }`)
  expect(await written()).toHaveLength(1)
  configure('')
  expect(await exportDays()).toMatchObject({ code: 1, stderr: expect.stringContaining('Set usage.export_to') })
})

test('two processes never export at the same time', async () => {
  const other = await world.pool.pg.connect()
  await other.query('SELECT pg_advisory_lock($1)', [0x6578706f])
  expect(await exportDays()).toMatchObject({ code: 3, stderr: expect.stringContaining('Another command exports') })
  other.release(true)
})

test('a bucket gets whole objects', async () => {
  const s3 = await startScriptedS3()
  onTestFinished(() => s3.close())
  const { endpoint, region, bucket, prefix, accessKeyId, secretAccessKey } = s3.place
  configure(`
usage: { export_to: 's3://${bucket}/${prefix}', export_format: jsonl }
backup:
  s3: { endpoint: '${endpoint}', region: ${region}, access_key_id: ${accessKeyId}, secret_access_key: ${secretAccessKey} }`)
  today('2026-02-02T04:53:00Z')
  s3.nowMs = () => Date.now()
  s3.fault = () => ({ status: 403, code: 'AccessDenied' })
  expect(await exportDays()).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/Cannot write .*usage-2026-02-01\.jsonl: the access key may not do this/),
  })
  s3.fault = () => undefined
  expect(await written()).toMatchObject([{ file: 'usage-2026-02-01.jsonl', rows: 2 }])
  const lines = s3.objects.get(`${prefix}usage-2026-02-01.jsonl`)!.toString().trimEnd().split('\n')
  expect(lines.map(line => JSON.parse(line).cost_nanos).toSorted()).toEqual([30, 500])
  expect(await written()).toEqual([])
})

test.for([
  [
    'while it reads',
    'LOCK TABLE usage_event IN ACCESS EXCLUSIVE MODE',
    'SELECT customer_id, request_id, row_to_json%',
    '.parquet.unfinished',
  ],
  ['before the note', 'LOCK TABLE installation IN EXCLUSIVE MODE', 'INSERT INTO installation%', '.parquet'],
] as const)('kill -9 %s leaves no half file, and the next run writes the day', async ([, lock, statement, left]) => {
  const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)
  await world.serve(Date.parse(`${day}T12:00:00Z`), 41n)
  const blocker = await world.pool.pg.connect()
  await blocker.query(`SET idle_in_transaction_session_timeout = 0; BEGIN; ${lock}`)
  const [node, ...program] = sourceProgram
  const child = spawn(node!, [...program, 'usage', 'export-days'], {
    cwd: cli.directory,
    env: { PATH: process.env.PATH, DATABASE_URL: databaseUrl(world.connection), SWITCHYARD_DATA: cli.directory },
    stdio: 'ignore',
  })
  const exit = once(child, 'exit')
  try {
    await eventually(async () => {
      const { rowCount } = await world.pool.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'switchyard cli' AND query LIKE $1`,
        [statement],
      )
      return rowCount === 1 && existsSync(join(place, `usage-${day}${left}`)) ? true : undefined
    }, PATIENT_MS)
  } finally {
    child.kill('SIGKILL')
    await exit
    await world.pool.query(
      `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'switchyard cli'`,
    )
    await blocker.query('ROLLBACK')
    blocker.release()
  }
  expect(await written()).toMatchObject([{ day, rows: 1 }])
  expect(readdirSync(place)).toEqual([`usage-${day}.parquet`])
  expect(summed(await eventsOf(day))).toEqual(await booked(`day = '${day}'`))
  expect(await written()).toEqual([])
})
