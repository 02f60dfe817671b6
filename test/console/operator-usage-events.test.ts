import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parquetReadObjects } from 'hyparquet'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { archiveMonth } from '../../src/money/ledger/archive/archive-month.ts'
import { drawOperatorKey } from '../../src/operator/operator-keys.ts'
import { startTestApp, type TestApp } from '../harness/app.ts'
import { signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useResource } from '../harness/use-resource.ts'
import { createArchiveWorld } from '../ledger/archive-world.ts'
import { eventually } from '../nodes/gateway-process.ts'

const world = useResource(createArchiveWorld, created => created.drop(), 'test')

let archives: string
let app: TestApp
let operator: Awaited<ReturnType<typeof signedInOperator>>
let key: ReturnType<typeof drawOperatorKey>
beforeEach(async () => {
  archives = mkdtempSync(join(tmpdir(), 'switchyard-archives-'))
  app = await startTestApp({ offers: [], database: world, yaml: `usage: { archive_directory: ${archives} }` })
  operator = await signedInOperator(app)
  key = await keyWith(['read'])
})
afterEach(async () => {
  await app.close()
  rmSync(archives, { recursive: true })
})

async function keyWith(scopes: readonly string[]) {
  const drawn = drawOperatorKey()
  await world.pool.query("SELECT issue_operator_key_as(NULL, $1, $2, 'test', $3, $4, $5, NULL, NULL)", [
    ...[drawn.keyId, operator.personId, drawn.hash, drawn.hint, scopes],
  ])
  return drawn
}

const events = (query: string, init: RequestInit = {}) =>
  fetch(`${app.url}/v1/admin/usage/events?${query}`, { headers: { authorization: `Bearer ${key.key}` }, ...init })
const archive = (month: string) => archiveMonth(world.pool, month, archives)

interface Row {
  readonly started_at: Date | string
  readonly cost_nanos: bigint | number
  readonly input_tokens: number
}

const linesOf = (text: string): Row[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line))

function summed(rows: readonly Row[]) {
  const sum = (read: (row: Row) => bigint | number) => rows.reduce((total, row) => total + BigInt(read(row)), 0n)
  return { requests: BigInt(rows.length), input: sum(row => row.input_tokens), cost: sum(row => row.cost_nanos) }
}

async function booked(where = 'true') {
  const { rows } = await world.pool.query(
    `SELECT sum(requests)::bigint AS requests, sum(input_tokens)::bigint AS input, sum(cost_nanos)::bigint AS cost FROM usage_day WHERE ${where}`,
  )
  return rows[0]
}

async function entries() {
  const { rows } = await world.pool.query(
    `SELECT person_id AS "personId", subject, detail, address FROM audit_entry WHERE action = 'usage.exported' ORDER BY entry_id`,
  )
  return rows
}

test.each(['live', 'archived'])('both formats add up to the books when January is %s', async state => {
  if (state === 'archived') await archive('2026-01')
  const parquet = await events('from=2026-01-01&to=2026-03-01&format=parquet')
  expect(parquet.status).toBe(200)
  expect(parquet.headers.get('content-type')).toBe('application/vnd.apache.parquet')
  expect(parquet.headers.get('content-disposition')).toBe(
    'attachment; filename="usage-events-2026-01-01-2026-03-01.parquet"',
  )
  expect(summed((await parquetReadObjects({ file: await parquet.arrayBuffer() })) as Row[])).toEqual(await booked())

  const lines = await events('from=2026-01-01')
  expect(lines.headers.get('content-type')).toMatch(/^application\/x-ndjson/)
  expect(lines.headers.get('content-disposition')).toBe('attachment; filename="usage-events-2026-01-01.jsonl"')
  expect(summed(linesOf(await lines.text()))).toEqual(await booked())

  const day = linesOf(await (await events('from=2026-01-31&to=2026-02-01')).text())
  expect(summed(day)).toEqual(await booked("day = '2026-01-31'"))
  const none = await events('from=1970-01-01&to=1970-01-02')
  expect([none.status, await none.text()]).toEqual([200, ''])
})

test('an export is in the audit log, by a key and by a person', async () => {
  await (await events('from=2026-01-01&to=2026-02-01')).text()
  const ofPerson = await operator.browser.get('operator/usage/events?from=2026-02-01&to=2026-03-01&format=parquet')
  expect(ofPerson.status).toBe(200)
  await ofPerson.arrayBuffer()
  const entry = { personId: operator.personId, subject: 'usage events', address: '127.0.0.1' }
  const span = { from: '2026-01-01T00:00:00.000Z', to: '2026-02-01T00:00:00.000Z' }
  expect(await entries()).toEqual([
    { ...entry, detail: { ...span, format: 'jsonl', by_key_id: key.keyId } },
    { ...entry, detail: { from: span.to, to: '2026-03-01T00:00:00.000Z', format: 'parquet' } },
  ])
})

test.each([
  ['from=2026-02-30', 'from'],
  ['from=2026-02-01T00:00:00Z', 'from'],
  ['from=2026-02-01&to=2026-02-01', 'from'],
  ['from=2999-01-01', 'from'],
  ['from=2026-02-01&to=soon', 'to'],
  ['from=2026-02-01&format=csv', 'format'],
])('%j is refused', async (query, param) => {
  expect(await readError(await events(query))).toMatchObject({ status: 400, code: 'invalid_value', param })
  expect(await readError(await events('format=jsonl'))).toMatchObject({
    status: 400,
    code: 'missing_parameter',
    param: 'from',
  })
  expect(await entries()).toEqual([])
})

test('a key needs the scope read', async () => {
  key = await keyWith(['customers', 'money', 'supply', 'settings'])
  expect(await readError(await events('from=2026-01-01'))).toMatchObject({ status: 403, code: 'insufficient_scope' })
})

test('a file of an archived month that is missing or differs is an error and no part of a file', async () => {
  await archive('2026-01')
  await archive('2026-02')
  const february = 'usage-2026-02.ndjson.gz'
  renameSync(join(archives, february), join(archives, 'elsewhere'))
  for (const format of ['jsonl', 'parquet']) {
    const missing = await readError(await events(`from=2026-01-01&format=${format}`))
    expect(missing).toMatchObject({ status: 409, code: 'changed_meanwhile' })
    expect(missing.message).toContain(`${february} is missing`)
  }
  expect((await events('from=2026-01-01&to=2026-01-31')).status).toBe(200)

  writeFileSync(join(archives, february), 'other')
  const other = await readError(await events('from=2026-02-02'))
  expect(other).toMatchObject({ status: 409, message: expect.stringContaining('is not the one that was written') })
  // The events of January are sent by then.
  const broken = await events('from=2026-01-01')
  expect(broken.status).toBe(200)
  await expect(broken.text()).rejects.toThrow()
  renameSync(join(archives, 'elsewhere'), join(archives, february))
  expect(summed(linesOf(await (await events('from=2026-01-01')).text()))).toEqual(await booked())
})

test('a client that does not read holds no connection, and one that leaves ends its export', async () => {
  // More than the sockets hold.
  const removeEvents = await addEvents(30_000)
  const leaves = new AbortController()
  const stalled = [await events('from=2026-01-01', { signal: leaves.signal }), await events('from=2026-01-01')]
  expect(stalled.map(({ status }) => status)).toEqual([200, 200])
  const third = await events('from=2026-01-01')
  expect(third.headers.get('retry-after')).toBe('10')
  expect(await readError(third)).toMatchObject({ status: 429, code: 'too_many_concurrent_requests' })
  await eventually(async () => {
    const { rowCount } = await world.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'switchyard' AND state <> 'idle'`,
    )
    return rowCount === 0 ? true : undefined
  })
  leaves.abort()
  await eventually(async () => {
    const next = await events('from=2026-02-01')
    await next.text()
    return next.status === 200 ? true : undefined
  })
  await stalled[1]!.body!.cancel()
  await removeEvents()
})

/** Copies a row of January. Returns the function that removes the copies, which the audit would find. */
async function addEvents(rows: number): Promise<() => Promise<unknown>> {
  const { rows: before } = await world.pool.query<{ id: string }>('SELECT request_id AS id FROM usage_event')
  await world.pool.query(
    `INSERT INTO usage_event SELECT copy.* FROM usage_event e, generate_series(1, $2::int) n,
       jsonb_populate_record(e, jsonb_build_object('request_id', left(e.request_id::text, 24) || lpad(n::text, 12, '0'))) AS copy
      WHERE e.request_id = $1`,
    [world.january[1], rows],
  )
  return () =>
    world.pool.query('DELETE FROM usage_event WHERE request_id <> ALL ($1::uuid[])', [before.map(({ id }) => id)])
}
