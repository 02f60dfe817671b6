import { afterAll, beforeAll, expect, test } from 'vitest'
import { readMonthCosts } from '../../src/market/supply/providers/provider-budgets.ts'
import type { OperatorProviders } from '../../src/wire/api/operator/providers.ts'
import { startTestApp, type TestApp, type TestCustomer } from '../harness/app.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { answer } from '../harness/scripted-upstream.ts'
import { useUpstream } from '../harness/use-test-app.ts'

const DAY_MS = 86_400_000
const upstream = useUpstream()
/** Both nodes share it. It begins at noon in the middle of a month. */
let nowMs = Date.UTC(2026, 10, 15, 12)
const clock = { epochMs: () => nowMs, monotonicMs: () => performance.now() }
const timeouts = { serverReportIntervalMs: 20 }
let nodes: readonly [TestApp, TestApp]
let customer: TestCustomer
let operator: BrowserClient
const yamlOf = (budget: string) => `
endpoints:
  - name: limited
    kind: cloud
    base_url: ${upstream.baseUrl}
    monthly_budget_usd: ${budget}
    models:
      - { id: sold, upstream_model: test-model, price_per_million_usd: { input: 9, output: 9 }, cost_per_million_usd: { input: 1000, output: 2000 } }
`
beforeAll(async () => {
  const masterKey = Buffer.alloc(32, 1)
  const first = await startTestApp({ clock, timeouts, masterKey, yaml: yamlOf('0.05') })
  const second = await startTestApp({ clock, timeouts, masterKey, database: first.database, yaml: yamlOf('0.05') })
  nodes = [first, second]
  customer = await first.customer()
  operator = (await signedInOperator(first)).browser
  upstream.respondWith(answer({ usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } }))
})
afterAll(async () => {
  await nodes?.[1].close()
  await nodes?.[0].close()
})

const ask = (node: TestApp) =>
  node.chat(customer, { model: 'sold', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 })
const statuses = async () => [(await ask(nodes[0])).status, (await ask(nodes[1])).status]
const shown = async () => {
  const { data } = (await (await operator.get('operator/providers')).json()) as OperatorProviders
  return data.find(({ name }) => name === 'limited')
}
const alarms = async () => {
  const { alarms } = (await (await operator.get('operator/overview')).json()) as { alarms: { key: string }[] }
  return alarms.map(({ key }) => key).filter(key => key.startsWith('budget'))
}

test('a model without a known cost counts at its price', async () => {
  const settings = {
    ...{ name: 'by-price', kind: 'cloud', base_url: upstream.baseUrl, monthly_budget_usd: '1', weight: 200 },
    models: [{ id: 'dear', upstream_model: 'test-model', price_per_million_usd: { input: '1000', output: '1000' } }],
  }
  const added = await operator.send('POST', 'operator/providers', { settings, reason: 'wanted' })
  expect(added.status).toBe(200)
  const body = { model: 'dear', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  expect((await nodes[0].chat(customer, body)).status).toBe(200)
  await expect
    .poll(async () => {
      const { data } = (await (await operator.get('operator/providers')).json()) as OperatorProviders
      return data.find(({ name }) => name === 'by-price')
    })
    .toMatchObject({ spent_this_month_usd: 0.015, monthly_budget_usd: 1, models: [{ weight: 200 }] })
})

test('beyond its budget a provider is left out on all nodes, until a higher one or the next month', async () => {
  expect(await statuses()).toEqual([200, 200])
  // Each answer costs 0.02 USD: 10 x 1000 and 5 x 2000 per million.
  await expect
    .poll(shown)
    .toMatchObject({ spent_this_month_usd: 0.04, monthly_budget_usd: 0.05, is_budget_spent: false })
  expect(await alarms()).toEqual([])
  expect((await ask(nodes[0])).status).toBe(200)
  await expect.poll(statuses).toEqual([500, 500])
  const { code, message } = await readError(await ask(nodes[1]))
  expect([code, message]).toEqual(['no_eligible_offer', expect.stringContaining('a budget of the operator')])
  expect(message).not.toContain('0.05')
  expect(await shown()).toMatchObject({ is_budget_spent: true })
  expect(await alarms()).toEqual(['budget_spent limited'])
  // The key of the file is read again.
  const { spent_this_month_usd: spent } = (await shown())!
  nodes[0].writeConfig(yamlOf('100'))
  expect((await operator.send('POST', 'operator/config/reload', { reason: 'more' })).status).toBe(200)
  expect((await ask(nodes[0])).status).toBe(200)
  expect(await alarms()).toEqual([])
  await expect.poll(async () => (await shown())!.spent_this_month_usd).toBeGreaterThan(spent)
  expect((await ask(nodes[1])).status).toBe(500)
  nowMs += 16 * DAY_MS
  await expect.poll(async () => (await ask(nodes[1])).status).toBe(200)
  const costs = () => readMonthCosts(nodes[0].database.pool, ['limited'], nowMs)
  await expect.poll(costs).toEqual(new Map([['limited', 20_000_000n]]))
})
