import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { UsageParts } from '../../src/base/domain/answer-event.ts'
import type { Receipt } from '../../src/base/domain/handoff.ts'
import type { Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { createExpensiveTiers } from '../../src/request/settle/log-anomalies.ts'
import { readConverseAnswer } from '../../src/wire/dialects/converse/converse-decoder.ts'
import { readGeminiUsage } from '../../src/wire/dialects/gemini/gemini-usage.ts'
import { readMessagesUsage } from '../../src/wire/dialects/messages/messages-usage.ts'
import { readResponseUsage } from '../../src/wire/dialects/responses/response-usage.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { readEventStream } from '../harness/event-stream.ts'
import { completion, sse, status, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import { useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
let gateway: TestApp
let customer: TestCustomer
let lines: Record<string, unknown>[] = []

beforeAll(async () => {
  const cloud = (name: string) =>
    testOffer(upstream.baseUrl, { modelId: name, endpoint: { kind: 'cloud', endpointId: name } })
  gateway = await startTestApp({
    offers: [
      ...['cloud', 'streaming', 'standard'].map(cloud),
      testOffer(upstream.baseUrl, { modelId: 'local', endpoint: { endpointId: 'gpu' } }),
    ],
    onLog: line => lines.push(JSON.parse(line)),
  })
  customer = await gateway.customer()
})
afterAll(() => gateway?.close())
beforeEach(() => {
  lines = []
})

const usage = usageOf(10, 5)

/** Asks for a whole answer of this tier, and expects that its client does not see the tier. */
async function ask(model: string, tier: string | undefined): Promise<void> {
  upstream.respondWith(status(200, { ...completion({ usage }), service_tier: tier }))
  const response = await gateway.chat(customer, { model, messages: [{ role: 'user', content: 'Hello' }] })
  const shown = (await response.json()) as { usage: object }
  expect(shown.usage).toEqual({ ...usage, cost_usd: 0.00002 })
}

const tiersLogged = () => lines.flatMap(({ tier, endpointId }) => (tier === undefined ? [] : [[endpointId, tier]]))

test('an expensive tier of a cloud is logged, and not again at once', async () => {
  await ask('cloud', 'priority')
  await ask('cloud', 'priority')
  expect(tiersLogged()).toEqual([['cloud', 'priority']])
  expect(lines.find(({ tier }) => tier)).toMatchObject({
    level: 40,
    modelId: 'cloud',
    msg: expect.stringContaining('billed at the standard price'),
  })
})

test('it is logged once an hour for each endpoint', () => {
  let nowMs = 0
  const logged: object[] = []
  const notice = createExpensiveTiers({
    clock: { epochMs: () => 0, monotonicMs: () => nowMs },
    log: { warn: facts => logged.push(facts) },
  })
  const answered = (endpointId: string) =>
    notice({ provider: 'cloud', endpointId } as Settlement, { upstreamTier: 'fast' } as Receipt)
  for (const endpointId of ['a', 'a', 'b']) answered(endpointId)
  nowMs = 3_600_000
  answered('a')
  expect(logged).toMatchObject([{ endpointId: 'a', tier: 'fast' }, { endpointId: 'b' }, { endpointId: 'a' }])
})

test('it is found in a stream, and its client does not see it', async () => {
  upstream.respondWith(sse(streamEvents({ usage }).map(event => withTier(event))))
  const options = { stream: true, stream_options: { include_usage: true } }
  const response = await gateway.chat(customer, {
    ...{ model: 'streaming', messages: [{ role: 'user', content: 'Hello' }] },
    ...options,
  })
  const stream = await readEventStream(response)
  expect(stream.usage).toEqual({ ...usage, cost_usd: 0.00002 })
  expect(tiersLogged()).toEqual([['streaming', 'priority']])
})

const withTier = (event: unknown) =>
  typeof event === 'string' ? event : { ...(event as object), service_tier: 'priority' }

test.each([undefined, 'default', 'standard', 'flex', 'batch', 'on_demand'])('the tier %s is not logged', async tier => {
  await ask('standard', tier)
  expect(tiersLogged()).toEqual([])
})

test('tiers of local servers are not logged: the operator pays for none', async () => {
  await ask('local', 'priority')
  expect(tiersLogged()).toEqual([])
})

const counts = { input_tokens: 10, output_tokens: 5 }
const converse = (more: object) => {
  const message = { content: [{ text: 'Hello' }] }
  const answer = { output: { message }, stopReason: 'end_turn', usage: { inputTokens: 10, outputTokens: 5 }, ...more }
  const last = readConverseAnswer(JSON.stringify(answer), null, 1_000).at(-1)
  return last?.kind === 'usage' ? last.usage : null
}

test.each<[dialect: string, tier: string | undefined, usage: UsageParts | null]>([
  ['responses', 'priority', readResponseUsage({ usage: counts, service_tier: 'priority' })],
  ['responses', undefined, readResponseUsage({ usage: counts, service_tier: 'default' })],
  ['messages', 'fast', readMessagesUsage({ ...counts, service_tier: 'standard', speed: 'fast' })],
  ['messages', undefined, readMessagesUsage({ ...counts, service_tier: 'standard', speed: 'standard' })],
  ['gemini', 'priority', readGeminiUsage({ promptTokenCount: 10, candidatesTokenCount: 5, serviceTier: 'priority' })],
  [
    'gemini of Vertex',
    'ON_DEMAND_PRIORITY',
    readGeminiUsage({ promptTokenCount: 10, candidatesTokenCount: 5, trafficType: 'ON_DEMAND_PRIORITY' }),
  ],
  ['converse', 'priority', converse({ serviceTier: { type: 'priority' } })],
  ['converse', undefined, converse({ serviceTier: { type: 'default' } })],
])('%s: the tier %s is read', (_dialect, tier, read) => {
  expect(read).toMatchObject({ freshTokens: 10, outputTokens: 5 })
  expect(read!.upstreamTier).toBe(tier)
})
