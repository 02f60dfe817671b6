import { expect, test } from 'vitest'
import type { UsageShares } from '../../src/wire/api/console-data.ts'
import type { Key } from '../../src/wire/api/keys.ts'
import { testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))

type Made = Key & { readonly key: string }

async function make(browser: BrowserClient, customerId: string, body: object = {}): Promise<Made> {
  const response = await browser.post(`customers/${customerId}/playground-key`, body)
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  await app.app.noticeChanges()
  return JSON.parse(text) as Made
}

const chat = (customerId: string, key: string) =>
  app.chat({ customerId, key }, { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 })

test('the key works, is marked, and ends after twelve hours', async () => {
  const { customerId } = await app.customer()
  const { browser, email } = await signedInMember(app, customerId, 'developer')
  const made = await make(browser, customerId)
  expect(made).toMatchObject({ is_playground: true, made_by: email, limit_usd: 1, limit_reset: 'daily', scopes: [] })
  const hours = (Date.parse(made.expires_at!) - Date.parse(made.created_at)) / 3_600_000
  expect(Math.round(hours)).toBe(12)
  expect((await chat(customerId, made.key)).status).toBe(200)
  const { data } = (await (await browser.get(`customers/${customerId}/keys`)).json()) as { data: Key[] }
  expect(data.find(({ id }) => id === made.id)).toMatchObject({ is_playground: true, made_by: email })
  expect(data.filter(key => key.is_playground)).toHaveLength(1)
})

test('opening the playground again ends the key before it, and gives no new allowance', async () => {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId)
  const first = await make(browser, customer.customerId, { spend_limit_usd: 0.5 })
  await (await chat(customer.customerId, first.key)).arrayBuffer()
  const [row] = await app.settled(customer, 1)
  const spent = Number(row!.cost_nanos) / 1e9
  const second = await make(browser, customer.customerId, { spend_limit_usd: '0.5' })
  expect(second.limit_usd).toBe((0.5 * 1e9 - spent * 1e9) / 1e9)
  expect((await chat(customer.customerId, first.key)).status).toBe(401)
  expect((await chat(customer.customerId, second.key)).status).toBe(200)
  const refused = await browser.post(`customers/${customer.customerId}/playground-key`, {
    spend_limit_usd: Number(spent.toFixed(9)),
  })
  expect(await readError(refused)).toMatchObject({ status: 402, code: 'key_spend_limit_reached' })
})

test('pages that open at the same time share one key', async () => {
  const { customerId } = await app.customer()
  const { browser } = await signedInMember(app, customerId)
  const made = await Promise.all([1, 2, 3, 4].map(() => make(browser, customerId)))
  const statuses = await Promise.all(made.map(async ({ key }) => (await chat(customerId, key)).status))
  expect(statuses.toSorted()).toEqual([200, 401, 401, 401])
})

test('another person has a key of their own; a viewer has none', async () => {
  const { customerId } = await app.customer()
  const [one, two] = [await signedInMember(app, customerId), await signedInMember(app, customerId, 'developer')]
  const keys = [await make(one.browser, customerId), await make(two.browser, customerId)]
  for (const { key } of keys) expect((await chat(customerId, key)).status).toBe(200)
  const { browser: viewer } = await signedInMember(app, customerId, 'viewer')
  const refused = await viewer.post(`customers/${customerId}/playground-key`)
  expect(await readError(refused)).toMatchObject({ status: 403, code: 'role_not_allowed' })
})

test.each([{ spend_limit_usd: 0 }, { spend_limit_usd: '1e3' }, { other: 1 }])('%j is refused', async body => {
  const { customerId } = await app.customer()
  const { browser } = await signedInMember(app, customerId)
  const refused = await browser.post(`customers/${customerId}/playground-key`, body)
  expect(refused.status).toBe(400)
})

test('usage by member is the usage of the keys that each has made', async () => {
  const customer = await app.customer()
  const { browser, email } = await signedInMember(app, customer.customerId)
  const { key } = (await (await browser.post(`customers/${customer.customerId}/keys`, { name: 'hers' })).json()) as Made
  const { key: playground } = await make(browser, customer.customerId)
  for (const used of [customer.key, key, key, playground]) await (await chat(customer.customerId, used)).arrayBuffer()
  await app.settled(customer, 4)
  const response = await browser.get(`customers/${customer.customerId}/usage/members`)
  const shares = (await response.json()) as UsageShares
  expect(shares.data.map(({ id, name, requests }) => [id === 'none' ? id : 'person', name, requests])).toEqual([
    ['person', email, 3],
    ['none', null, 1],
  ])
  expect(shares).toMatchObject({ by: 'member', totals: { requests: 4, input_tokens: null } })
})
