import { expect, test } from 'vitest'
import { addHosters } from '../../bench/add-hosters.ts'
import { startDoubtfulServer } from '../../bench/answers/doubtful-server.ts'
import { sendRequests } from '../../bench/answers/send-requests.ts'
import { useResource } from '../harness/use-resource.ts'
import { useCustomer, useTestApp } from '../harness/use-test-app.ts'

const seed = 22

const gateway = useTestApp({ yaml: 'settlement: journal\nhosters:\n  allow_private_urls: true\n' })
const limits = { requestsPerMinute: 1e9, requestsPerDay: 1e9, dailySpendCapNanos: 10n ** 14n }
const customers = [limits, limits].map(limits => useCustomer(gateway, { creditNanos: 10n ** 14n, limits }))
const server = useResource(
  () => startDoubtfulServer({ seed, calmRequestsMax: 10 }),
  started => started.close(),
)

// `npm run bench:answers` does the same with 100,000 requests.
test('answers that come too often, late, early, twice and in pieces reach no other customer', async () => {
  const models = Array.from({ length: 100 }, (_, hoster) => `model-${hoster}`)
  await addHosters(
    gateway.database.pool,
    models.map(modelId => ({ modelId, baseUrl: `${server.origin}/${modelId}/v1` })),
  )
  await gateway.app.noticeChanges()
  const { counts, wrong } = await sendRequests({
    origin: gateway.url,
    keys: customers.map(({ key }) => key),
    models,
    requests: 2_000,
    concurrency: 40,
    seed,
  })
  expect(wrong).toEqual([])
  expect(counts.get('own')).toBeGreaterThan(1_500)
  expect(server.requests.kept).toBeGreaterThan(200)
})
