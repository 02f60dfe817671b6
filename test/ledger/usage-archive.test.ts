import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { lowestUuidAt } from '../../src/base/runtime/uuid.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import { archiveMonth } from '../../src/money/ledger/archive/archive-month.ts'
import { listUsageMonths } from '../../src/money/ledger/archive/usage-months.ts'
import { encodeSettlement } from '../../src/money/ledger/settlement/settlement.ts'
import { tokenUsage } from '../../src/money/usage/token-usage.ts'
import { usageBreakdown } from '../../src/money/usage/usage-breakdown.ts'
import { storeOf } from '../harness/store-of.ts'
import { useResource } from '../harness/use-resource.ts'
import { createArchiveWorld, FEBRUARY_MS, JANUARY_MS, uuidAt } from './archive-world.ts'
import { admissionOf, KEY_ID, settlementOf } from './ledger-world.ts'

const world = useResource(createArchiveWorld, created => created.drop(), 'test')
const directory = useResource(
  async () => ({ path: await mkdtemp(join(tmpdir(), 'switchyard-archive-')) }),
  ({ path }) => rm(path, { recursive: true }),
  'test',
)

const archiveJanuary = () => archiveMonth(world.pool, '2026-01', directory.path)

test('an archived month is in its file, and its reports and the audit stay as they were', async () => {
  const refunded = world.january[1]!
  await refundRequest(world.pool, { customerId: world.customerId, requestId: refunded, amountNanos: 50n, reason: 'x' })
  const [reports, rows] = [await readReports(), await readRows()]
  expect(await listUsageMonths(world.pool, '2026-02')).toEqual([
    { month: '2026-01', isFrozen: false, requests: 4n, keptRequests: 1n, costNanos: 272n, bytes: expect.any(BigInt) },
  ])

  const { path, requests, costNanos, sha256 } = await archiveJanuary()

  const file = readFileSync(path)
  expect({ requests, costNanos, sha256 }).toEqual({ requests: 4n, costNanos: 272n, sha256: sha256Of(file) })
  expect(readFileSync(`${path}.sha256`, 'utf8')).toBe(`${sha256}  usage-2026-01.ndjson.gz\n`)
  const lines = gunzipSync(file).toString().trimEnd().split('\n')
  // Every column of every row, as PostgreSQL writes a row as JSON.
  expect(lines.toSorted()).toEqual(rows.filter(({ month }) => month === '2026-01').map(({ json }) => json))
  expect(await world.violations()).toEqual([])
  expect(await readReports()).toEqual(reports)
  expect((await readRows()).map(({ id }) => id)).toEqual(
    rows.filter(({ month, id }) => month === '2026-02' || id === refunded).map(({ id }) => id),
  )
  expect(await listUsageMonths(world.pool, '2026-02')).toEqual([])
})

test('months are archived one after the other, and an empty one too', async () => {
  for (const month of ['2026-01', '2026-02', '2026-03']) {
    await archiveMonth(world.pool, month, directory.path)
    expect(await world.violations(), month).toEqual([])
  }
  expect(await readRows()).toEqual([])
})

test.for([
  ['after the freeze', async () => {}],
  [
    'while it writes the file',
    async () => writeFileSync(join(directory.path, 'usage-2026-01.ndjson.gz.partial'), 'half a file'),
  ],
  [
    'after the file, before the sums',
    async () => {
      const finish = world.pool.query(
        `SELECT finish_usage_archive('2026-01-01', 4, 273, 'usage-2026-01.ndjson.gz', 'another')`,
      )
      await expect(finish).rejects.toThrow('the file of 2026-01 has 4 rows that cost 273 nano-USD')
      writeFileSync(join(directory.path, 'usage-2026-01.ndjson.gz'), 'an earlier file')
    },
  ],
] as const)('an archive that stops %s leaves a clean ledger, and continues', async ([, stop]) => {
  const reports = await readReports()
  await freezeJanuary()
  await stop()
  expect(await world.violations()).toEqual([])
  expect(await readReports()).toEqual(reports)
  expect(await listUsageMonths(world.pool, '2026-02')).toMatchObject([{ isFrozen: true, requests: 4n }])
  const { path, requests, sha256 } = await archiveJanuary()
  expect([requests, sha256]).toEqual([4n, sha256Of(readFileSync(path))])
  expect(existsSync(`${path}.partial`)).toBe(false)
  expect(await world.violations()).toEqual([])
  expect(await readReports()).toEqual(reports)
})

test('two calls at once archive a month once', async () => {
  await freezeJanuary()
  const other = await mkdtemp(join(tmpdir(), 'switchyard-archive-'))
  const done = await Promise.allSettled([archiveJanuary(), archiveMonth(world.pool, '2026-01', other)])
  expect(done.map(({ status }) => status)).toContain('fulfilled')
  // The slower one may find the rows gone.
  const refusals = done.flatMap(each => (each.status === 'rejected' ? [String(each.reason)] : []))
  expect(refusals.filter(text => !text.endsWith('another command has archived it.'))).toEqual([])
  const { rows } = await world.pool.query('SELECT sum(requests)::integer AS requests FROM usage_closing')
  expect(rows).toEqual([{ requests: 4 }])
  expect(await world.violations()).toEqual([])
  await rm(other, { recursive: true })
})

test('a month that another command has archived since it was listed is refused, also in its directory', async () => {
  await archiveJanuary()
  await expect(archiveJanuary()).rejects.toThrow('Cannot archive 2026-01: another command has archived it.')
  await expect(archiveMonth(world.pool, '2026-01', tmpdir())).rejects.toThrow('another command has archived it.')
  const { rows } = await world.pool.query('SELECT sum(requests)::integer AS requests FROM usage_closing')
  expect(rows).toEqual([{ requests: 4 }])
})

test.skipIf(!existsSync('/dev/full'))(
  'a full disk is reported and leaves no file, and the archive continues',
  async () => {
    for (const name of ['usage-2026-01.ndjson.gz.partial', 'usage-2026-01.ndjson.gz.sha256.partial']) {
      symlinkSync('/dev/full', join(directory.path, name))
      await expect(archiveJanuary()).rejects.toThrow(
        `Cannot archive 2026-01: cannot write to ${directory.path}: no space left on device. Its rows are complete`,
      )
      expect(readdirSync(directory.path).filter(left => left !== 'usage-2026-01.ndjson.gz.partial')).toEqual([])
      expect(await world.violations()).toEqual([])
    }
    expect((await archiveJanuary()).requests).toBe(4n)
    expect(await world.violations()).toEqual([])
  },
)

test.for([
  ['a cost', 'cost_nanos = cost_nanos + 1, fee_nanos = fee_nanos + 1', 'archived_charges_equal_entries'],
  ['a share', 'hoster_share_nanos = hoster_share_nanos + 1, fee_nanos = fee_nanos - 1', 'days_equal_usage'],
  ['a block of transactions', 'tx_block = tx_block + 1', 'archived_charges_equal_entries'],
  ['a count', 'requests = requests + 1', 'archives_equal_closings'],
  ['a kind of provider', 'hoster_requests = hoster_requests - 1', 'hours_equal_archived_days'],
  ['a latency', 'latency_ms_sum = latency_ms_sum + 1', 'days_equal_usage'],
  ['a key', 'key_id = customer_id', 'key_days_equal_usage'],
  ['a day of a cap', 'cap_day = cap_day + 1', 'day_spend_equals_usage'],
  ['a window of a key', 'key_window = key_window + 1', 'key_spend_equals_usage'],
] as const)('the audit finds %s that was changed in the sums', async ([, change, check]) => {
  await archiveJanuary()
  await world.pool.query('ALTER TABLE usage_closing DISABLE TRIGGER USER')
  await world.pool.query(
    `UPDATE usage_closing SET ${change} WHERE ctid = (SELECT ctid FROM usage_closing WHERE key_window IS NOT NULL)`,
  )
  await world.pool.query('ALTER TABLE usage_closing ENABLE TRIGGER USER')
  expect((await world.violations()).map(({ name }) => name)).toContain(check)
})

test('a settlement of an archived month that comes again is not charged again', async () => {
  const [served] = world.january
  const admission = admissionOf(world.customerId, 1_000n, { requestId: served!, keyId: KEY_ID })
  const again = encodeSettlement(settlementOf(admission, 1_000n, 101n, { startedAtEpochMs: JANUARY_MS }))
  const effects = async () => (await storeOf(world.pool).settle(1, Buffer.from(again))).get(served!)
  expect(await effects()).toBe('duplicate')
  await freezeJanuary()
  expect(await effects()).toBe('archived')
  await archiveJanuary()
  expect(await effects()).toBe('archived')
  expect(await world.violations()).toEqual([])
})

test('a request with a lease and an id of an archived month is charged, in a row that stays', async () => {
  await freezeJanuary()
  await world.serve(JANUARY_MS, 40n)
  await archiveJanuary()
  await world.serve(JANUARY_MS, 41n)
  expect((await readRows()).filter(({ month }) => month === '2026-01')).toHaveLength(2)
  expect(await world.violations()).toEqual([])
})

test('settlements go on while a month is archived', async () => {
  let isArchived = false
  let served = 0
  const serving = [JANUARY_MS, FEBRUARY_MS, JANUARY_MS, FEBRUARY_MS].map(async atMs => {
    const { ledger } = await world.addNode({ windowClock: () => FEBRUARY_MS })
    const customerId = await world.addCustomer(1_000_000n)
    do {
      const admission = admissionOf(customerId, 100n, { requestId: uuidAt(atMs) })
      const { kind } = await ledger.admit(admission)
      expect(kind).toBe('granted')
      const settlement = settlementOf(admission, 100n, 10n, { startedAtEpochMs: atMs })
      await ledger.settle(settlement, { leaseId: admission.requestId, nanos: 100n, isOpen: true })
      served++
    } while (!isArchived)
  })
  try {
    // Refused while a lease of January is open, so try again.
    for (let frozen = false; !frozen; ) {
      frozen = await freezeJanuary().then(
        () => true,
        error => {
          expect(error).toMatchObject({
            code: 'SY003',
            message: expect.stringMatching(/leases of requests up to 2026-01/),
          })
          return false
        },
      )
    }
    await archiveJanuary()
  } finally {
    isArchived = true
    await Promise.all(serving)
  }
  expect(await world.violations()).toEqual([])
  const { rows } = await world.pool.query<{ charged: bigint }>(
    `SELECT count(*) AS charged FROM (
       SELECT generate_series(1, requests) FROM usage_closing WHERE cost_nanos = 10 * requests
       UNION ALL SELECT 1 FROM usage_event WHERE cost_nanos = 10) AS each`,
  )
  expect(Number(rows[0]!.charged)).toBe(served)
})

test('a month that can still change is refused', async () => {
  const recent = new Date(Date.now() - 30 * 86_400_000)
  const month = recent.toISOString().slice(0, 7)
  await expect(archiveMonth(world.pool, month, directory.path)).rejects.toThrow()
  await expect(freeze(`${month}-01`, uuidAt(recent.getTime()), uuidAt(recent.getTime()))).rejects.toThrow(
    `requests of ${month} can still be refunded`,
  )
  const { ledger } = await world.addNode()
  await ledger.admit(admissionOf(world.customerId, 10n, { requestId: uuidAt(JANUARY_MS) }))
  await expect(archiveJanuary()).rejects.toThrow('Cannot archive 2026-01: 1 leases of requests up to 2026-01 are open.')
  const { rows } = await world.pool.query("SELECT reloptions FROM pg_class WHERE relname = 'usage_event_2026_01'")
  expect(rows, 'autovacuum goes on').toEqual([{ reloptions: null }])
  expect(await world.violations()).toEqual([])
})

const freeze = (month: string, from: string, to: string) =>
  world.pool.query('SELECT freeze_usage_month($1, $2, $3)', [month, from, to])

const freezeJanuary = () => freeze('2026-01-01', lowestUuidAt(Date.UTC(2026, 0)), lowestUuidAt(Date.UTC(2026, 1)))

async function readReports() {
  const nowMs = Date.UTC(2026, 1, 2)
  return Promise.all([
    tokenUsage(world.pool, world.customerId, 60, 'hour', nowMs),
    usageBreakdown(world.pool, world.customerId, 60, nowMs),
  ])
}

async function readRows(): Promise<{ id: string; month: string; json: string }[]> {
  const { rows } = await world.pool.query<{ id: string; month: string; json: string }>(
    `SELECT request_id AS id, to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM') AS month, row_to_json(u)::text AS json
     FROM usage_event u ORDER BY row_to_json(u)::text COLLATE "C"`,
  )
  return rows
}

const sha256Of = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
