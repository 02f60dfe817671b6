import { afterEach, describe, expect, test } from 'vitest'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import { readError, readEventStream } from '../harness/event-stream.ts'
import { answer, hangUp, html200, type ScriptedUpstream, stall, status } from '../harness/scripted-upstream.ts'
import { GENEROUS_TIMEOUTS } from '../harness/timeouts.ts'
import { useUpstream } from '../harness/use-test-app.ts'

const [first, second, third, fourth] = [useUpstream(), useUpstream(), useUpstream(), useUpstream()]
let gateway: TestApp

/** Routing tries the cheaper server first, so `rank` fixes the order of the attempts. */
const priced = (
  upstream: ScriptedUpstream,
  rank: number,
  modelId = 'test-model',
  firstTokenMs = GENEROUS_TIMEOUTS.firstTokenMs,
) =>
  testOffer(upstream.baseUrl, {
    modelId,
    endpoint: { timeouts: { ...GENEROUS_TIMEOUTS, firstTokenMs } },
    price: { inputPicoPerToken: 1_000_000n * BigInt(rank), outputPicoPerToken: 2_000_000n },
  })

/** Starts a new gateway, since breakers remember failures. `firstTokenMs` is the timeout of `first`. */
async function start({ firstTokenMs }: { firstTokenMs?: number } = {}): Promise<void> {
  gateway = await startTestApp({
    offers: [
      priced(first, 1, 'test-model', firstTokenMs),
      priced(second, 2),
      priced(third, 3),
      priced(fourth, 4),
      priced(fourth, 1, 'backup-model'),
    ],
    yaml: 'hosters: { allow_private_urls: true }',
  })
}

afterEach(() => gateway?.close())

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], tier: 'cheapest' }

describe.each([true, false])('all_hosters_failed, stream: %s', stream => {
  test('after three servers: no charge, no details in the message, the attempts in the usage row', async () => {
    await start()
    const customer = await gateway.customer()
    const sentBefore = [first, second, third, fourth].map(upstream => upstream.requests.length)
    first.respondWith(status(503, 'busy'))
    second.respondWith(hangUp())
    third.respondWith(html200())
    const response = await gateway.chat(customer, { ...hello, stream })
    expect(response.headers.get('x-should-retry')).toBe('false')
    expect(response.headers.get('content-type')).toContain('application/json')
    const error = await readError(response)
    expect(error).toMatchObject({ status: 500, type: 'server_error', code: 'all_hosters_failed', param: null })
    expect(error.message).not.toMatch(/127\.0\.0\.1|endpoint|busy|html/i)
    expect([first, second, third, fourth].map((upstream, i) => upstream.requests.length - sentBefore[i]!)).toEqual([
      1, 1, 1, 0,
    ])

    expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n)
    const [row] = await gateway.usage(customer)
    expect(row).toMatchObject({
      success: false,
      outcome: 'unserved',
      provider: 'none',
      cost_nanos: 0n,
      output_tokens: 0,
    })
    expect(row!.attempts.map(attempt => attempt.outcome)).toEqual(['server_error', 'server_error', 'malformed'])
    expect((await gateway.chat(customer, { ...hello, max_tokens: 5 })).status).toBe(200)
  })

  test('fallback models are tried after all servers of the first model', async () => {
    await start()
    const customer = await gateway.customer()
    for (const upstream of [first, second, third]) upstream.respondWith(status(500))
    fourth.respondWith(answer({ text: 'from the backup' }))
    const response = await gateway.chat(customer, { ...hello, stream, fallback_models: ['backup-model'] })
    expect(response.status).toBe(200)
    const model = stream
      ? (await readEventStream(response)).chunks[0]!.model
      : ((await response.json()) as { model: string }).model
    expect(model).toBe('backup-model')
    const [row] = await gateway.usage(customer)
    expect(row!.attempts.map(attempt => attempt.outcome)).toEqual([
      'server_error',
      'server_error',
      'server_error',
      'answered',
    ])
    expect(row).toMatchObject({ model_id: 'backup-model', success: true })
  })

  test('a server that fails before its first content is replaced without a trace', async () => {
    await start({ firstTokenMs: 500 })
    const customer = await gateway.customer()
    first.respondWith(...(stream ? [stall('headers')] : [hangUp('reset')]))
    second.respondWith(status(200, { error: { message: 'out of memory', code: 500 } }))
    third.respondWith(answer({ text: 'third time lucky' }))
    const response = await gateway.chat(customer, { ...hello, stream })
    expect(response.status).toBe(200)
    const body = await response.text()
    expect(body).not.toContain('memory')
    expect(body).toContain('lucky')
    const [row] = await gateway.usage(customer)
    expect(row!.attempts.map(attempt => attempt.outcome)).toEqual([
      stream ? 'first_token_timeout' : 'server_error',
      'server_error',
      'answered',
    ])
  })

  test('if all servers are busy, Retry-After is the shortest of theirs', async () => {
    await start()
    const customer = await gateway.customer()
    first.respondWith(status(429, { error: { message: 'slow down' } }, { 'retry-after': '30' }))
    second.respondWith(status(503, {}, { 'retry-after': '7' }))
    third.respondWith(status(429, {}, { 'retry-after-ms': '12000' }))
    const response = await gateway.chat(customer, { ...hello, stream })
    expect(response.headers.get('retry-after')).toBe('7')
    expect(response.headers.get('x-should-retry')).toBeNull()
    expect(await readError(response)).toMatchObject({ status: 500, code: 'all_hosters_failed' })
  })

  test('a server that rejects our key is a 500, not an error of the customer', async () => {
    await start()
    const customer = await gateway.customer()
    for (const [index, upstream] of [first, second, third].entries())
      upstream.respondWith(status([401, 403, 402][index]!))
    expect(await readError(await gateway.chat(customer, { ...hello, stream }))).toMatchObject({
      status: 500,
      code: 'all_hosters_failed',
    })
    const [row] = await gateway.usage(customer)
    expect(row!.attempts.map(attempt => attempt.outcome)).toEqual(Array(3).fill('credential_rejected'))
  })

  test('a firewall that blocks the prompt with 403 does not count as a rejected key', async () => {
    await start()
    const customer = await gateway.customer()
    const page = '<!DOCTYPE html><html><h1>Sorry, you have been blocked</h1></html>'
    first.respondWith(status(403, page, { 'content-type': 'text/html' }))
    second.respondWith(status(403, 'error code: 1020\n'))
    third.respondWith(status(403, page))
    await gateway.chat(customer, { ...hello, stream })
    expect((await gateway.chat(customer, { ...hello, stream })).status).toBe(200)
    const [blocked, later] = await gateway.settled(customer, 2)
    expect(blocked!.attempts.map(attempt => attempt.outcome)).toEqual(Array(3).fill('server_error'))
    expect(later!.attempts.map(attempt => attempt.outcome)).toEqual(['answered'])
  })

  test('a server without the model is skipped', async () => {
    await start()
    const customer = await gateway.customer()
    first.respondWith(status(404, { error: { message: 'model "x" not found, try pulling it first' } }))
    expect((await gateway.chat(customer, { ...hello, stream })).status).toBe(200)
  })
})

describe('no_eligible_offer', () => {
  test('names each constraint with the number of offers that it excluded', async () => {
    const cloud = testOffer(first.baseUrl, { modelId: 'cloud-model', endpoint: { kind: 'cloud' } })
    gateway = await startTestApp({ offers: [cloud], yaml: 'hosters: { allow_private_urls: true }' })
    const customer = await gateway.customer()
    const models = [{ modelId: 'hosted-model', features: [] }]
    const low = await gateway.hoster({ baseUrl: `${first.baseUrl}/low`, trustScore: 0.8, models })
    const high = await gateway.hoster({ baseUrl: `${first.baseUrl}/high`, trustScore: 0.81, models })
    const refusal = async (body: object) => {
      const response = await gateway.chat(customer, { ...hello, ...body })
      expect(response.headers.get('x-should-retry')).toBe('false')
      expect(Number(response.headers.get('x-ratelimit-remaining-requests'))).toBeGreaterThan(0)
      const error = await readError(response)
      expect(error).toMatchObject({ status: 500, type: 'server_error', code: 'no_eligible_offer' })
      return error.message
    }
    expect(await refusal({ model: 'cloud-model', privacy_mode: true })).toContain('privacy_mode excluded 1 cloud offer')
    expect(
      await refusal({
        model: 'cloud-model',
        privacy_mode: true,
        fallback_models: ['hosted-model'],
        deny_hosters: [low, high],
      }),
    ).toMatch(/privacy_mode excluded 1 cloud offer; deny_hosters excluded 2 hoster offers/)
    expect(await refusal({ model: 'hosted-model', allow_hosters: [] })).toContain(
      'allow_hosters excluded 2 hoster offers',
    )
    expect(await refusal({ model: 'hosted-model', max_latency_ms: 1_000 })).toContain(
      'max_latency_ms (slower, or fewer than 5 answers in the last 10 minutes to predict it from) excluded 2 hoster offers',
    )
    expect(await refusal({ model: 'hosted-model', trusted_only: true, deny_hosters: [high] })).toMatch(
      /trusted_only \(trust_score above 0\.8\) excluded 1 hoster offer; deny_hosters excluded 1 hoster offer/,
    )
    // No constraint is at fault when no server has a feature of the request.
    const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }]
    const unsupported = await readError(await gateway.chat(customer, { ...hello, model: 'hosted-model', tools }))
    expect(unsupported).toMatchObject({ status: 400, code: 'feature_not_supported' })
    expect(unsupported.message).toContain('excluded 2 offers; none has tools')
    expect((await gateway.usage(customer)).length).toBe(0)
    expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n)
  })
})
