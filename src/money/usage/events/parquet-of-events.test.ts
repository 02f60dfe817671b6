import { parquetMetadata, parquetReadObjects } from 'hyparquet'
import { expect, test } from 'vitest'
import { jsonLinesOfEvents } from './json-lines-of-events.ts'
import { parquetOfEvents } from './parquet-of-events.ts'
import { readUsageEvent, type UsageEvent, usageEventColumnNames } from './usage-event-columns.ts'

const stored = {
  request_id: '019b76da-a800-7000-8000-000000000000',
  started_at: '2026-01-01T00:00:00.123+00:00',
  customer_id: '0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11',
  ...{ model_id: 'modèle', provider: 'cloud', success: true, outcome: 'served', usage_source: 'upstream' },
  ...{ input_tokens: 2_147_483_647, output_tokens: 0, latency_ms: 1 },
  ...{ input_pico_per_token: 1, output_pico_per_token: 2 },
  ...{ cost_nanos: 9_007_199_254_740_991, hoster_share_nanos: 0, fee_nanos: 9_007_199_254_740_991, writeoff_nanos: 0 },
}
const event = readUsageEvent(JSON.stringify(stored))

async function fileOf(...pages: UsageEvent[][]): Promise<ArrayBuffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of parquetOfEvents(toAsync(pages))) pieces.push(piece)
  return new Uint8Array(Buffer.concat(pieces)).buffer
}

async function* toAsync<T>(values: readonly T[]): AsyncGenerator<T> {
  yield* values
}

test('a file has every column as it was, to the last nano-USD, and nulls', async () => {
  const other = { ...event, label: 'team a', cost_nanos: 1n, upstream_cost_nanos: 7n, first_token_ms: 3 }
  const read = await parquetReadObjects({ file: await fileOf([event], [other]) })
  expect(read).toEqual([event, other])
  expect(Object.keys(read[0]!)).toEqual(usageEventColumnNames)
})

test('a long file has several groups of rows, an empty one none', async () => {
  const pages = Array.from({ length: 9 }, () => Array.from({ length: 5_000 }, () => event))
  const { row_groups, num_rows } = parquetMetadata(await fileOf(...pages))
  expect(num_rows).toBe(45_000n)
  expect(row_groups.map(group => group.num_rows)).toEqual([20_000n, 20_000n, 5_000n])
  expect(await parquetReadObjects({ file: await fileOf() })).toEqual([])
})

test('lines of JSON have the same', async () => {
  const lines: string[] = []
  for await (const text of jsonLinesOfEvents(toAsync([[event]]))) lines.push(text)
  expect(lines).toHaveLength(1)
  expect(JSON.parse(lines[0]!)).toMatchObject({ ...stored, started_at: '2026-01-01T00:00:00.123Z', label: null })
})

test.each([
  ['cost_nanos', 2 ** 53],
  ['cost_nanos', 0.5],
  ['cost_nanos', null],
  ['started_at', 5],
])('a row with %s %j is refused', (name, value) => {
  expect(() => readUsageEvent(JSON.stringify({ ...stored, [name]: value }))).toThrow(`as ${name}`)
})
