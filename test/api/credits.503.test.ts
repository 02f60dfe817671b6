import { expect, test } from 'vitest'
import { startTestApp } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'

test('the credit endpoints are 503 while the database is down', async () => {
  const gateway = await startTestApp({ mayBeCutOff: true })
  const customer = await gateway.customer()
  // Puts the key into the cache.
  await (await gateway.get(customer, '/v1/credits')).text()
  const restore = gateway.cutOff()
  try {
    for (const path of ['/v1/credits', '/v1/credits/transactions']) {
      const error = await readError(await gateway.get(customer, path))
      expect(error).toMatchObject({ status: 503, code: 'database_unavailable' })
    }
  } finally {
    restore()
    await gateway.close()
  }
})
