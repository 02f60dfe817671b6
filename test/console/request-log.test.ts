import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import type { OperatorReceipt } from '../../src/wire/api/operator/receipt.ts'
import type { RequestLog } from '../../src/wire/api/operator/requests.ts'
import type { TestCustomer } from '../harness/app.ts'
import { testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { answer, status } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
let operator: BrowserClient
let customers: [TestCustomer, TestCustomer]
const chat = (customer: TestCustomer, headers: Record<string, string> = {}) =>
  app.chat(
    customer,
    { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 },
    { headers },
  )
const list = async (query = ''): Promise<RequestLog> => {
  const response = await operator.get(`operator/requests?${query}`)
  expect(response.status).toBe(200)
  return (await response.json()) as RequestLog
}

beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
  customers = [await app.customer({ key: { name: 'first' } }), await app.customer({ key: { name: 'second' } })]
  upstream.respondWith(answer())
  for (const customer of customers) await (await chat(customer, { 'x-switchyard-label': 'bot' })).arrayBuffer()
  upstream.respondWith(status(500))
  await (await chat(customers[0])).arrayBuffer()
  await Promise.all([app.settled(customers[0], 2), app.settled(customers[1], 1)])
})

test('requests of all customers are listed, the newest first, page by page', async () => {
  const { data, next_cursor: end } = await list()
  expect(end).toBeNull()
  expect(data.map(({ key, outcome }) => [key?.name, outcome])).toEqual([
    ['first', 'unserved'],
    ['second', 'served'],
    ['first', 'served'],
  ])
  const ids: string[] = []
  let cursor = ''
  do {
    const page = await list(`limit=1${cursor}`)
    ids.push(...page.data.map(({ id }) => id))
    cursor = page.next_cursor === null ? '' : `&cursor=${page.next_cursor}`
  } while (cursor !== '')
  expect(ids).toEqual(data.map(({ id }) => id))
})

test('they are found by id, customer, key, label, model, server, outcome and how an attempt failed', async () => {
  const all = (await list()).data
  const [failed, second, first] = all
  const found = async (query: string) => (await list(query)).data.map(({ id }) => id)
  expect(await found(`id=${second!.id}`)).toEqual([second!.id])
  expect(await found(`customer=${customers[1].customerId}`)).toEqual([second!.id])
  expect(await found(`key=${first!.key!.id}`)).toEqual([failed!.id, first!.id])
  expect(await found('label=bot')).toEqual([second!.id, first!.id])
  expect(await found('outcome=unserved')).toEqual([failed!.id])
  expect(await found('failure=server_error')).toEqual([failed!.id])
  expect(await found('failure=busy')).toEqual([])
  expect(await found(`server=${first!.server}&model=test-model`)).toHaveLength(3)
  expect(failed).toMatchObject({ success: false, charged_usd: 0, failures: ['server_error'] })
  expect(await found(`id=${randomUUID()}`)).toEqual([])
  expect(await found(`key=${randomUUID()}`)).toEqual([])
})

test('the accounts of audits are in no list', async () => {
  const { pool } = app.database
  const house = customers[1].customerId
  await pool.query(
    'INSERT INTO house_customer (customer_id, key_id) SELECT customer_id, key_id FROM api_key WHERE customer_id = $1',
    [house],
  )
  expect((await list()).data.map(({ customer }) => customer.id)).not.toContain(house)
  const listed = (await (await operator.get('operator/customers')).json()) as { data: { id: string }[] }
  expect(listed.data.map(({ id }) => id)).not.toContain(house)
  await pool.query('DELETE FROM house_customer')
})

test.each(['id=1', 'customer=x', 'outcome=lost', 'limit=0', 'failure=x', 'cursor=x'])('%s is refused', async query => {
  const [param] = query.split('=')
  expect(await readError(await operator.get(`operator/requests?${query}`))).toMatchObject({ status: 400, param })
})

test('the receipt of a request has what the customer paid, what it cost and what is left, and what servers said', async () => {
  const [failed, second] = (await list()).data
  const receipt = async (id: string) =>
    (await (await operator.get(`operator/requests/${id}`)).json()) as OperatorReceipt
  const { pool } = app.database
  expect(await receipt(second!.id)).toMatchObject({ cost_usd: 0, margin_usd: second!.charged_usd })
  await pool.query("UPDATE usage_event SET provider = 'cloud' WHERE request_id = $1", [second!.id])
  const unknown = await receipt(second!.id)
  expect(unknown).toMatchObject({
    customer: { id: customers[1].customerId },
    cost_usd: null,
    margin_usd: null,
    errors: [],
  })
  expect(unknown.paid_usd).toBe(second!.charged_usd)
  expect(unknown.receipt).toMatchObject({
    id: second!.id,
    key: { name: 'second' },
    attempts: [{ outcome: 'answered' }],
  })
  expect(await receipt(failed!.id)).toMatchObject({ paid_usd: 0, receipt: { outcome: 'unserved' } })

  const ofCloud = 'UPDATE usage_event SET upstream_cost_nanos = cost_nanos / 2 WHERE request_id = $1'
  await pool.query(ofCloud, [second!.id])
  const known = await receipt(second!.id)
  expect(known.margin_usd).toBeCloseTo(known.paid_usd / 2, 9)
  expect(known.margin_usd).toBeCloseTo(known.paid_usd - known.cost_usd!, 9)
  const refund = { request_id: second!.id, reason: 'it was wrong' }
  expect((await operator.post(`operator/customers/${customers[1].customerId}/refunds`, refund)).status).toBe(200)
  const refunded = await receipt(second!.id)
  expect(refunded).toMatchObject({ paid_usd: 0, cost_usd: known.cost_usd, margin_usd: -known.cost_usd! })

  await pool.query(
    `INSERT INTO server_error (at, endpoint_id, model_id, outcome, status, text, request_id, customer_id)
     VALUES (now(), $2, 'test-model', 'server_error', 500, 'out of memory', $1, $3)`,
    [failed!.id, failed!.server ?? second!.server, customers[0].customerId],
  )
  expect((await receipt(failed!.id)).errors).toContainEqual(
    expect.objectContaining({ status: 500, text: 'out of memory' }),
  )
  for (const id of [randomUUID(), 'x'])
    expect(await readError(await operator.get(`operator/requests/${id}`))).toMatchObject({
      status: 404,
      code: 'request_not_found',
    })
  // The audit of the books compares the rows with their sums.
  await pool.query("UPDATE usage_event SET provider = 'local', upstream_cost_nanos = NULL WHERE request_id = $1", [
    second!.id,
  ])
  const { rows } = await pool.query("SELECT FROM audit_entry WHERE action = 'customer.viewed' AND subject = $1", [
    customers[1].customerId,
  ])
  expect(rows.length).toBeGreaterThan(0)
})
