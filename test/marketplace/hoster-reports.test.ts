import { expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { addTraffic } from '../../src/market/marketplace/traffic.ts'
import { sumPlatformDays } from '../../src/operator/platform-days.ts'
import type { HosterOffers, HosterStatus, HosterTraffic } from '../../src/wire/api/hoster-console.ts'
import { addAgentHoster, startAgent } from '../agent/agent-world.ts'
import { startTestApp } from '../harness/app.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { answer, status } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }', timeouts: { serverReportIntervalMs: 50 } })
const upstream = useUpstream('test')
const other = useUpstream('test')

async function read<T>(hosterId: string, path: string): Promise<T> {
  const { key } = await hosterKey(app, hosterId, ['read'])
  const response = await hosterRequest(app, key, path)
  expect(response.status).toBe(200)
  return (await response.json()) as T
}

test('traffic counts each attempt by outcome once, also those of requests that another server answered', async () => {
  const models = [{ modelId: 'traffic-model' }]
  const [failing, serving] = [
    await app.hoster({ baseUrl: upstream.baseUrl, models }),
    await app.hoster({ baseUrl: other.baseUrl, models }),
  ]
  upstream.always(status(500, { error: { message: 'out of memory' } }))
  other.always(answer())
  const customer = await app.customer()
  const ask = () => app.chat(customer, { model: 'traffic-model', messages: [{ role: 'user', content: 'Hello!' }] })
  for (let count = 0; count < 4; count++) expect((await ask()).status).toBe(200)
  const rows = await app.settled(customer, 4)
  const faults = rows.flatMap(({ attempts }) => attempts).filter(({ outcome }) => outcome === 'server_error').length
  await transaction(app.database.pool, sql => addTraffic(sql, { fromMs: 0, toMs: Date.now() }))

  const served = await read<HosterTraffic>(serving, 'hoster/traffic')
  expect(served.data).toMatchObject([{ model: 'traffic-model', answered: 4, failed: {}, compared_requests: 4 }])
  const { reported, billed } = served.data[0]!.output_tokens
  expect(billed).toBe(rows.reduce((sum, row) => sum + row.output_tokens, 0))
  expect(reported).toBeGreaterThan(0)
  const failed = await read<HosterTraffic>(failing, 'hoster/traffic')
  expect(failed.data.flatMap(({ failed: counts }) => counts.server_error ?? 0)).toEqual(faults === 0 ? [] : [faults])
})

test('a cheaper price has a better place and a higher share, and a doubled one waits for the notice', async () => {
  const models = [{ modelId: 'priced-model' }]
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl, models })
  const first = await read<HosterOffers>(hosterId, 'hoster/offers')
  expect(first.data[0]!.market).toMatchObject({ requests: 0, is_assumed: true, others: [] })
  await app.hoster({ baseUrl: other.baseUrl, models })
  const customer = await app.customer()
  const ask = () => app.chat(customer, { model: 'priced-model', messages: [{ role: 'user', content: 'Hello!' }] })
  for (let count = 0; count < 2; count++) expect((await ask()).status).toBe(200)
  await app.settled(customer, 2)
  await transaction(app.database.pool, sql => sumPlatformDays(sql, Date.now()))

  const { data, rules } = await read<HosterOffers>(hosterId, 'hoster/offers')
  expect(rules).toMatchObject({ rise_percent: 20, notice_hours: 24 })
  const { market, candidates } = data[0]!
  expect(market).toMatchObject({ requests: 2, is_assumed: false, others: [{ provider: 'hoster', trust: 0.9 }] })
  const at = (percent: number) => candidates.find(each => each.percent === percent)!
  expect(at(50)).toMatchObject({ price_rank: 1, wins_cheapest: true, balanced_share: 1, needs_notice: false })
  expect(at(100)).toMatchObject({ price_rank: 1, wins_cheapest: false, balanced_share: 0.5, requests: 1 })
  expect(at(120)).toMatchObject({ price_rank: 2, balanced_share: 0.2509, needs_notice: false })
  expect(at(200)).toMatchObject({ price_rank: 2, balanced_share: 0, needs_notice: true })
})

test('hosters do not see the names of the servers of the operator', async () => {
  const own = (name: string) =>
    `{ name: ${name}, kind: local, base_url: "${other.baseUrl}", models: [{ id: shared-model, context_tokens: 8192, max_output_tokens: 1024, price_per_million_usd: { input: 1, output: 2 } }] }`
  const yaml = `hosters: { allow_private_urls: true }\nendpoints: [${own('gpu-rack-4')}, ${own('gpu-rack-7')}]`
  const node = await startTestApp({ yaml })
  const hosterId = await node.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: 'shared-model' }] })
  const { key } = await hosterKey(node, hosterId, ['read'])
  const text = await (await hosterRequest(node, key, 'hoster/offers')).text()
  const { others } = (JSON.parse(text) as HosterOffers).data[0]!.market
  expect(others.map(({ name, provider }) => [name, provider])).toEqual([
    ['platform', 'local'],
    ['platform 2', 'local'],
  ])
  expect(text).not.toContain('gpu-rack')
  await node.close()
})

test('the status shows connected agents and the health of models', async () => {
  const { hosterId, key } = await addAgentHoster(app, [{ modelId: 'agent-model', upstreamModel: 'test-model' }])
  const agent = startAgent(key, app.url, { upstream, slots: 3 })
  const found = await vi.waitFor(async () => {
    const shown = await read<HosterStatus>(hosterId, 'hoster/status')
    expect(shown.agents).toMatchObject([{ version: 'test', state: 'open', slots: 3, free_slots: 3, nodes: 1 }])
    return shown
  }, WAIT_OPTIONS)
  expect(found.agents[0]!.models).toEqual(['test-model'])
  expect(found.models).toMatchObject([{ model: 'agent-model', in_flight: 0, failed_today: 0 }])
  await agent.stop()
  await vi.waitFor(async () => {
    expect((await read<HosterStatus>(hosterId, 'hoster/status')).agents).toEqual([])
  }, WAIT_OPTIONS)
})
