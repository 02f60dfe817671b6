import { beforeAll, expect, test } from 'vitest'
import type { Sql } from '../../src/base/db/pool.ts'
import type { ExportQuery } from '../../src/wire/api/activity.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createRichCustomer } from './customer.ts'
import { parseCsv } from './parse-csv.ts'
import { useTestGateway } from './test-gateway.ts'
import { hosterUse as use } from './usage.ts'

const database = useTestDatabase()
/** Statements that the reports sent to PostgreSQL. */
let statements = 0
const counting: Sql = {
  query(statement, values) {
    statements++
    return database.pool.query(statement, values)
  },
}
const gateway = useTestGateway(database, counting)
beforeAll(() => gateway.travel('2026-11-21T12:00:00.250Z'))

test('one row per request under the header, oldest first', async () => {
  const caller = await createRichCustomer(database.pool)
  const [served, failed] = await gateway.use(caller, [use, { ...use, agoMs: 1_000, provider: 'none', modelId: 'auto' }])
  expect(await gateway.exportText(caller, 30)).toBe(
    'timestamp,model,provider,input_tokens,output_tokens,total_tokens,cost_usd,latency_ms,success,request_id,outcome,key_id,key,label,member\r\n' +
      `2026-11-21T11:59:59.250Z,auto,none,0,0,0,0.00,398,false,${failed!.requestId},${failed!.outcome},${caller.keyId},,,\r\n` +
      `2026-11-21T12:00:00.250Z,meta/llama-3,hoster,31,154,185,0.000016951,398,true,${served!.requestId},${served!.outcome},${caller.keyId},,,\r\n`,
  )
})

test('the file is named after its first and last day', async () => {
  const caller = await createRichCustomer(database.pool)
  const { fileName } = await gateway.reports.export(caller, { days: 30 })
  expect(fileName).toBe('switchyard-usage-2026-10-23-2026-11-21.csv')
})

test.each([
  ['=HYPERLINK("http://evil.example")', `"'=HYPERLINK(""http://evil.example"")"`],
  ['+1', `"'+1"`],
  ['-1', `"'-1"`],
  ['@SUM(A1)', `"'@SUM(A1)"`],
  ['\t=1', `"'\t=1"`],
  ['\r=1', `"'\r=1"`],
  ['a,b', '"a,b"'],
  ['a "b"', '"a ""b"""'],
  ['a\nb', '"a\nb"'],
  ['a=b', 'a=b'],
])('the cell %j is written %j', async (modelId, cell) => {
  const caller = await createRichCustomer(database.pool)
  await gateway.use(caller, [{ ...use, modelId }])
  const text = await gateway.exportText(caller, 1)
  expect(text).toContain(`Z,${cell},hoster,`)
  expect(parseCsv(text)[1]).toHaveLength(15)
})

test('the filters of the list and a period apply: last month, of one model, that failed', async () => {
  const caller = await createRichCustomer(database.pool)
  const dayMs = 86_400_000
  const uses = [22, 21, 20, 1].map(days => ({ ...use, agoMs: days * dayMs, inputTokens: days }))
  await gateway.use(caller, [...uses, { ...use, agoMs: 21 * dayMs, provider: 'none', modelId: 'demo' }])
  const rows = async (query: ExportQuery) => {
    let text = ''
    for await (const piece of (await gateway.reports.export(caller, query)).csv) text += piece
    return parseCsv(text)
      .slice(1)
      .map(([at, model, , tokens]) => `${at?.slice(0, 10)} ${model} ${tokens}`)
  }
  const october = { from: '2026-10-01', to: '2026-11-01' }
  expect((await rows(october)).sort()).toEqual([
    '2026-10-30 meta/llama-3 22',
    '2026-10-31 demo 0',
    '2026-10-31 meta/llama-3 21',
  ])
  expect(await rows({ ...october, model: 'demo', success: 'false' })).toEqual(['2026-10-31 demo 0'])
  expect(await rows({ to: '2026-10-31' })).toEqual(['2026-10-30 meta/llama-3 22'])
  expect((await gateway.reports.export(caller, october)).fileName).toBe('switchyard-usage-2026-10-01-2026-10-31.csv')
  await expect(rows({ from: '2026-11-01', to: '2026-10-01' })).rejects.toThrow('earlier')
  await expect(rows({ from: '2026-11-01', days: 7 })).rejects.toThrow('"days"')
})

test('many rows are read page by page, each once, and only as far as the client reads', async () => {
  const caller = await createRichCustomer(database.pool)
  await gateway.use(
    caller,
    // Many ids within one millisecond differ only in their random part.
    Array.from({ length: 2_000 }, (_, index) => ({ ...use, agoMs: Math.floor(index / 500), inputTokens: index })),
  )
  const text = await gateway.exportText(caller, 1)
  const tokens = parseCsv(text)
    .slice(1)
    .map(row => Number(row[3]))
  expect(tokens.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 2_000 }, (_, index) => index))

  statements = 0
  const { csv } = await gateway.reports.export(caller, { days: 1 })
  for await (const piece of csv) if (piece.includes('llama')) break
  // One page, and the look-up of archived months.
  expect(statements).toBe(2)
})

test('the period begins and ends at midnight UTC, to the millisecond', async () => {
  const caller = await createRichCustomer(database.pool)
  const sinceMidnightMs = 12 * 3_600_000 + 250
  await gateway.use(caller, [
    { ...use, agoMs: sinceMidnightMs },
    { ...use, agoMs: sinceMidnightMs + 1 },
  ])
  const times = async (days: number) =>
    parseCsv(await gateway.exportText(caller, days))
      .slice(1)
      .map(row => row[0])
  expect(await times(1)).toEqual(['2026-11-21T00:00:00.000Z'])
  expect(await times(2)).toEqual(['2026-11-20T23:59:59.999Z', '2026-11-21T00:00:00.000Z'])
})
