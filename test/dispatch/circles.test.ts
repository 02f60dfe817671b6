import { expect, test } from 'vitest'
import { answer, type Behaviour } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// A hoster without a server of its own: it sends what it gets back to the gateway, with the key of a customer of its own.

const circle = useUpstream()
const honest = useUpstream()
const app = useTestApp({ yaml: 'hosters:\n  allow_private_urls: true\n' })

const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 5 }

/** Sends each request to the gateway with this key, whatever it is. */
const sendBack =
  (key: string, more: object = {}): Behaviour =>
  async (request, response) => {
    const again = await fetch(`${app.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...request.body, model: 'test-model', ...more }),
    })
    response.writeHead(again.status, { 'content-type': 'application/json' }).end(await again.text())
  }

test('a circle ends at the limit of the customer that closes it, and nobody pays or earns', async () => {
  const hosterId = await app.hoster({ baseUrl: circle.baseUrl })
  const own = await app.customer({ limits: { requestsPerMinute: 5 } })
  circle.always(sendBack(own.key, { allow_hosters: [hosterId] }))
  const payer = await app.customer()
  const response = await app.chat(payer, { ...body, allow_hosters: [hosterId] })
  expect(response.status).toBeGreaterThanOrEqual(400)
  await response.text()
  const [row] = await app.settled(payer, 1)
  expect(row!.cost_nanos).toBe(0n)
  const { rows } = await app.database.pool.query(
    'SELECT coalesce(sum(cost_nanos), 0)::bigint AS cost, coalesce(sum(hoster_share_nanos), 0)::bigint AS share, count(*)::int AS count FROM usage_event WHERE customer_id = $1',
    [own.customerId],
  )
  expect(rows[0]).toMatchObject({ cost: 0n, share: 0n })
  expect(circle.requests.length).toBeLessThan(100)
})

test('a hoster that asks another one pays the price of each request, and gets a share of one', async () => {
  const [relay, server] = [await app.hoster({ baseUrl: circle.baseUrl }), await app.hoster({ baseUrl: honest.baseUrl })]
  const own = await app.customer()
  honest.always(answer())
  circle.always(sendBack(own.key, { allow_hosters: [server] }))
  const payer = await app.customer()
  const response = await app.chat(payer, { ...body, allow_hosters: [relay] })
  if (response.status !== 200) throw new Error(await response.text())
  await response.text()
  const [[paid], [spent]] = [await app.settled(payer, 1), await app.settled(own, 1)]
  expect(paid!.cost_nanos).toBe(spent!.cost_nanos)
  expect(paid!.hoster_share_nanos).toBeLessThan(spent!.cost_nanos)
})
