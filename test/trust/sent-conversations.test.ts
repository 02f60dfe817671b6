import { expect, test } from 'vitest'
import type { TestCustomer } from '../harness/app.ts'
import { completion, status } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Each hoster that was sent a request of a customer that shares them has seen it, also if it answered with an error.

const failing = useUpstream()
const answering = useUpstream()
const app = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }\ntrust: { audits: true, audit_minutes: 1440 }',
}))

const EXPENSIVE = { inputPicoPerToken: 9_000_000n, outputPicoPerToken: 9_000_000n }

async function sharingCustomer(): Promise<TestCustomer> {
  const customer = await app.customer()
  await app.database.pool.query('UPDATE customer SET shares_requests = true WHERE customer_id = $1', [
    customer.customerId,
  ])
  await app.app.noticeChanges()
  return customer
}

async function ask(
  customer: TestCustomer,
  allowHosters: readonly string[],
  content: string,
  fields: object = {},
): Promise<number> {
  const messages = [{ role: 'user', content }]
  const response = await app.chat(customer, {
    model: 'test-model',
    messages,
    allow_hosters: allowHosters,
    tier: 'cheapest',
    ...fields,
  })
  await response.body?.cancel()
  return response.status
}

/** How many conversations each hoster has seen. */
async function seenBy(hosterIds: readonly string[]): Promise<number[]> {
  const { rows } = await app.database.pool.query<{ hoster_id: string; count: number }>(
    'SELECT hoster_id, count(*)::int FROM seen_conversation GROUP BY hoster_id',
  )
  return hosterIds.map(hosterId => rows.find(row => row.hoster_id === hosterId)?.count ?? 0)
}

test('a hoster that failed has seen a request, whether another one answered it or none', async () => {
  failing.always(status(500))
  answering.always(status(200, completion({ text: 'Yes.' })))
  const failingId = await app.hoster({ baseUrl: failing.baseUrl })
  const answeringId = await app.hoster({ baseUrl: answering.baseUrl, models: [{ price: EXPENSIVE }] })
  const [sharing, other] = [await sharingCustomer(), await app.customer()]
  expect(await ask(other, [failingId], 'Is it mine?')).toBeGreaterThanOrEqual(500)
  expect(await ask(other, [answeringId], 'Is it mine?')).toBe(200)
  expect(await ask(sharing, [answeringId], 'Is it private?', { privacy_mode: true })).toBe(200)
  expect(await ask(sharing, [failingId], 'Is it the first?')).toBeGreaterThanOrEqual(500)
  await expect.poll(() => seenBy([failingId, answeringId]), WAIT_OPTIONS).toEqual([1, 0])
  // The cheaper one is tried first.
  expect(await ask(sharing, [failingId, answeringId], 'Is it the second?')).toBe(200)
  await expect.poll(() => seenBy([failingId, answeringId]), WAIT_OPTIONS).toEqual([2, 1])
  expect(failing.requests).toHaveLength(3)
})
