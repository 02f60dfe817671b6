// Changes during a request do not affect it: docs/money.md, "When something breaks".
import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { listKeys, revokeKey } from '../../src/identity/auth/keys.ts'
import { suspendHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { setHosterPrice } from '../../src/market/supply/hosters/set-hoster-price.ts'
import { setAccountTier } from '../../src/money/accounts/customers.ts'
import { readError } from '../harness/event-stream.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp({
  yaml: `
hosters: { allow_private_urls: true }
account_tiers: { closed: { requests_per_minute: 1, requests_per_day: 1, daily_spend_cap_usd: 0 } }`,
})

test('a request is charged at the price of its admission, and its hoster is paid, although price, hoster, key and tier have changed', async () => {
  const { pool } = gateway.database
  const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n }
  const hosterId = await gateway.hoster({ baseUrl: upstream.baseUrl, models: [{ price }] })
  const customer = await gateway.customer()
  const body = (stream: boolean) => ({ model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], stream })
  const gate = Promise.withResolvers<void>()
  const answers = [true, false].map(async stream => {
    upstream.respondWith(async (request, response) => {
      await gate.promise
      await answer({ usage: usageOf(10, 5) })(request, response)
    })
    const answered = gateway.chat(customer, body(stream))
    await upstream.next()
    return answered
  })
  await expect.poll(() => upstream.requests.length, { interval: 1 }).toBe(2)

  const higherPrice = { inputPicoPerToken: 9_000_000n, outputPicoPerToken: 9_000_000n }
  await setHosterPrice(pool, hosterId, { modelId: 'test-model', price: higherPrice })
  await suspendHoster(pool, hosterId)
  await transaction(pool, sql => setAccountTier(sql, customer.customerId, 'closed'))
  const [key] = await listKeys(pool, customer.customerId)
  await transaction(pool, sql => revokeKey(sql, key!.keyId))
  await gateway.app.noticeChanges()
  expect(await readError(await gateway.chat(customer, body(false)))).toMatchObject({ status: 401 })

  gate.resolve()
  for (const answered of answers) {
    const response = await answered
    expect(response.status).toBe(200)
    await response.text()
  }
  const rows = await gateway.settled(customer, 2)
  for (const row of rows) {
    expect(row).toMatchObject({
      outcome: 'served',
      hoster_id: hosterId,
      cost_nanos: 20_000n,
      hoster_share_nanos: 16_000n,
    })
  }
  const prices = await pool.query('SELECT input_pico_per_token AS input, price_version AS version FROM usage_event')
  expect(prices.rows).toEqual(Array(2).fill({ input: price.inputPicoPerToken, version: 1 }))
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - 40_000n)
})
