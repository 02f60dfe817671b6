import { expect, test } from 'vitest'
import type { HosterStatus } from '../../src/wire/api/hoster-console.ts'
import { testOffer } from '../harness/app.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// A hoster sees how many requests run, how fast they were and how many were answered. If audits were left out of one of these, each
// request that does not move it would be an audit.

const local = useUpstream()
const upstream = useUpstream()
const app = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }\ntrust: { audits: true }',
  offers: [testOffer(local.baseUrl)],
  timeouts: { serverReportIntervalMs: 50 },
}))

test('audits move the requests in flight, the latency and the counts of a hoster like other requests', async () => {
  for (const server of [local, upstream]) server.always(answer({ text: 'I do not know.', usage: usageOf(60, 5) }))
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl, trustScore: 0 })
  const { key } = await hosterKey(app, hosterId, ['read'])
  const read = async <T>(path: string) => (await (await hosterRequest(app, key, path)).json()) as T
  const statusOf = async () => (await read<HosterStatus>('hoster/status')).models[0]!
  expect(await statusOf()).toMatchObject({ in_flight: 0, answered_today: 0, first_token_p50_ms: null })

  // The first request of an audit waits, so that it is seen running.
  const held = Promise.withResolvers<void>()
  upstream.always(async (request, response) => {
    await held.promise
    return answer({ text: 'I do not know.', usage: usageOf(60, 5) })(request, response)
  })
  await app.database.pool.query(
    `SELECT graphile_worker.add_job('audit_hoster', json_build_object('endpoint_id', endpoint_id)) FROM hoster_endpoint`,
  )
  await expect.poll(async () => (await statusOf()).in_flight).toBeGreaterThan(0)
  held.resolve()
  await expect.poll(async () => (await statusOf()).in_flight).toBe(0)
  await expect
    .poll(async () => {
      const { in_flight, answered_today, first_token_p50_ms } = await statusOf()
      return {
        isIdle: in_flight === 0,
        isEqual: answered_today > 0 && answered_today === upstream.requests.length,
        isMeasured: first_token_p50_ms !== null,
      }
    })
    .toEqual({ isIdle: true, isEqual: true, isMeasured: true })
})
