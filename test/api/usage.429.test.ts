import { expect, test } from 'vitest'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const gateway = useTestApp({
  yaml: 'reports: { requests_per_minute: 6 }',
  // The minute never ends.
  clock: { epochMs: () => Date.UTC(2026, 10, 21, 9, 30, 15), monotonicMs: () => performance.now() },
})

const reports = [
  '/v1/usage',
  '/v1/usage/tokens',
  '/v1/usage/breakdown',
  '/v1/usage/export',
  '/v1/credits',
  '/v1/credits/transactions',
]

test('the reports share one rate limit per customer, and other endpoints do not', async () => {
  const customer = await gateway.customer()
  const asked = async (path: string) => {
    const response = await gateway.get(customer, path)
    if (response.status === 429) return await readError(response)
    await response.text()
    return response.status
  }
  expect(await asked('/v1/models')).toBe(200)
  for (const path of reports) expect(await asked(path), path).toBe(200)
  for (const path of reports) expect(await asked(path), path).toMatchObject({ code: 'rate_limit_exceeded' })
  expect(await asked('/v1/models')).toBe(200)
  expect((await gateway.get(customer, '/v1/usage')).headers.get('retry-after')).toBe('45')
  expect((await gateway.get(await gateway.customer(), '/v1/usage')).status).toBe(200)
})
