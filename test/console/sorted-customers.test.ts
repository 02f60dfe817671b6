import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { sumPlatformDays } from '../../src/operator/platform-days.ts'
import { type CustomerPage, customerSorts, type ListedCustomer } from '../../src/wire/api/operator/customers.ts'
import { testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
let operator: BrowserClient
const ids: string[] = []
beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
  const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  // Two have the same balance and have spent nothing.
  for (const requests of [2, 0, 0, 3, 1]) {
    const customer = await app.customer()
    ids.push(customer.customerId)
    for (let sent = 0; sent < requests; sent++) await (await app.chat(customer, chat)).arrayBuffer()
    await app.settled(customer, requests)
  }
  await transaction(app.database.pool, sql =>
    grantCredit(sql, { customerId: ids[2]!, amountNanos: 9_000_000_000n, reason: 'invoice', ref: randomUUID() }),
  )
  await transaction(app.database.pool, sql => sumPlatformDays(sql, Date.now()))
})

const pageOf = async (query: string) => {
  const response = await operator.get(`operator/customers?${query}`)
  expect(response.status).toBe(200)
  return (await response.json()) as CustomerPage
}

/** Reads all pages of two customers. */
async function allOf(query: string): Promise<readonly ListedCustomer[]> {
  const found: ListedCustomer[] = []
  let cursor: string | null = null
  do {
    const page: CustomerPage = await pageOf(`${query}&limit=2${cursor === null ? '' : `&cursor=${cursor}`}`)
    found.push(...page.data)
    cursor = page.next_cursor
  } while (cursor !== null)
  return found
}

const figures: Record<(typeof customerSorts)[number], (customer: ListedCustomer) => string | number> = {
  created: each => each.created_at,
  email: each => each.email!.toLowerCase(),
  balance: each => each.balance_usd,
  spent: each => each.spent_30d_usd,
  requests: each => each.requests_30d,
}

test.each(customerSorts)('customers are sorted by %s over all pages, in both directions', async sort => {
  const figure = figures[sort]
  const down = await allOf(`sort=${sort}&order=desc`)
  const up = await allOf(`sort=${sort}&order=asc`)
  expect(down.map(({ id }) => id)).toEqual(expect.arrayContaining(ids))
  expect(new Set(down.map(({ id }) => id)).size).toBe(down.length)
  expect(up.map(({ id }) => id)).toEqual(down.map(({ id }) => id).toReversed())
  for (const [index, customer] of up.entries()) {
    const before = up[index - 1]
    if (before !== undefined) expect(figure(before) <= figure(customer)).toBe(true)
  }
})

test('a sorted list shows the figures that each customer has', async () => {
  const [first] = (await pageOf('sort=requests')).data
  expect(first).toMatchObject({ id: ids[3], requests_30d: 3 })
  expect((await pageOf('sort=spent')).data[0]).toEqual(first)
  expect((await pageOf('sort=balance')).data[0]).toMatchObject({ id: ids[2], balance_usd: 14 })
  expect((await pageOf(`sort=balance&order=asc&search=${ids[3]}`)).data).toEqual([first])
})

test('another name or a cursor of another list is refused', async () => {
  const refusal = async (query: string) => readError(await operator.get(`operator/customers?${query}`))
  expect(await refusal('sort=margin')).toMatchObject({ status: 400, param: 'sort' })
  expect(await refusal('order=up')).toMatchObject({ status: 400, param: 'order' })
  const { next_cursor: cursor } = await pageOf('limit=2')
  expect(await refusal(`sort=balance&cursor=${cursor}`)).toMatchObject({ status: 400, param: 'cursor' })
})
