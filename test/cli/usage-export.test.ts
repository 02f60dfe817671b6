import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parquetReadObjects } from 'hyparquet'
import { expect, test } from 'vitest'
import type { UsageEvent } from '../../src/money/usage/events/usage-event-columns.ts'
import { useResource } from '../harness/use-resource.ts'
import { createArchiveWorld } from '../ledger/archive-world.ts'
import { useCli } from './use-cli.ts'

const world = useResource(createArchiveWorld, created => created.drop(), 'test')
const cli = useCli({
  get connection() {
    return world.connection
  },
})
const exported = (...args: string[]) => cli.run(['usage', 'export', '--from', '2026-01-01', ...args])

async function readParquet(name: string): Promise<UsageEvent[]> {
  const bytes = readFileSync(join(cli.directory, name))
  return (await parquetReadObjects({ file: new Uint8Array(bytes).buffer })) as UsageEvent[]
}

/** The sums of the books, which stay when rows are archived. */
async function booked(where = 'true') {
  const { rows } = await world.pool.query(
    `SELECT sum(requests)::bigint AS requests, sum(input_tokens + output_tokens)::bigint AS tokens, sum(cost_nanos)::bigint AS cost,
       sum(hoster_share_nanos)::bigint AS share, sum(fee_nanos)::bigint AS fee FROM usage_day WHERE ${where}`,
  )
  return rows[0]
}

function summed(events: readonly UsageEvent[]) {
  const sum = (read: (event: UsageEvent) => bigint) => events.reduce((total, event) => total + read(event), 0n)
  return {
    requests: BigInt(events.length),
    tokens: sum(({ input_tokens, output_tokens }) => BigInt(input_tokens + output_tokens)),
    cost: sum(({ cost_nanos }) => cost_nanos),
    share: sum(({ hoster_share_nanos }) => hoster_share_nanos),
    fee: sum(({ fee_nanos }) => fee_nanos),
  }
}

test('archived and stored rows add up to the books, in Parquet and in JSON', async () => {
  const before = await exported('--out', 'before.parquet')
  expect(before.code, before.stderr).toBe(0)
  expect(summed(await readParquet('before.parquet'))).toEqual(await booked())
  expect((await cli.run(['usage', 'archive', '--before', '2026-02', '--yes'])).code).toBe(0)

  const done = await exported('--out', 'all.parquet', '--json')
  expect(done.code, done.stderr).toBe(0)
  const events = await readParquet('all.parquet')
  expect(summed(events)).toEqual(await booked())
  const byId = (a: UsageEvent, b: UsageEvent) => (a.request_id < b.request_id ? -1 : 1)
  expect(events.sort(byId)).toEqual((await readParquet('before.parquet')).sort(byId))
  expect(JSON.parse(done.stdout)).toMatchObject({ format: 'parquet', rows: 6, cost_usd: '0.000000802' })
  expect(statSync(join(cli.directory, 'all.parquet')).mode & 0o777).toBe(0o600)

  const january = await exported('--to', '2026-02-01', '--format', 'jsonl', '--out', 'january.jsonl')
  expect(january.code, january.stderr).toBe(0)
  const lines = readFileSync(join(cli.directory, 'january.jsonl'), 'utf8').trimEnd().split('\n')
  const charges = lines.map(line => JSON.parse(line) as { cost_nanos: number; started_at: string })
  expect(charges.every(({ started_at }) => started_at.startsWith('2026-01-'))).toBe(true)
  const books = await booked("day < '2026-02-01'")
  expect({
    requests: BigInt(charges.length),
    cost: BigInt(charges.reduce((sum, row) => sum + row.cost_nanos, 0)),
  }).toEqual({
    requests: books!.requests,
    cost: books!.cost,
  })
})

test('no file of an archived month is left out in silence, and none is overwritten', async () => {
  const archived = await cli.run(['usage', 'archive', '--before', '2026-02', '--yes', '--out', 'moved'])
  expect(archived.code, archived.stderr).toBe(0)
  const missing = await exported('--out', 'some.parquet', '--archives', '.')
  expect(missing).toMatchObject({ code: 1, stderr: expect.stringMatching(/usage-2026-01\.ndjson\.gz is missing/) })
  writeFileSync(join(cli.directory, 'usage-2026-01.ndjson.gz'), 'other')
  const other = await exported('--out', 'some.parquet', '--archives', '.')
  expect(other).toMatchObject({ code: 1, stderr: expect.stringMatching(/is not the one that was written/) })
  const found = await exported('--out', 'some.parquet', '--archives', 'moved')
  expect(found.code, found.stderr).toBe(0)
  expect(summed(await readParquet('some.parquet'))).toEqual(await booked())
  expect((await exported('--out', 'some.parquet')).stderr).toMatch(/exists already/)
  expect((await exported('--out', 'none.parquet', '--to', '2026-01-01')).code).toBe(2)
})
