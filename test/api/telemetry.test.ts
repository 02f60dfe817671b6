import { describe, expect, test, vi } from 'vitest'
import { startTestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { type ReceivedSpan, startOtlpReceiver } from '../harness/otlp-receiver.ts'
import { openResponses } from '../harness/response-socket.ts'
import { embeddings } from '../harness/scripted-embeddings.ts'
import { answer, status } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const collector = useResource(startOtlpReceiver, receiver => receiver.close())
const cheap = useUpstream()
const dear = useUpstream()
const hosted = useUpstream()
const price = { inputPicoPerToken: 900_000_000n, outputPicoPerToken: 900_000_000n }
const dearOffer = () =>
  testOffer(dear.baseUrl, { price, endpoint: { kind: 'cloud', endpointId: 'box', getsTraces: true } })
const gateway = useTestApp(() => ({
  offers: [
    testOffer(cheap.baseUrl, { endpoint: { endpointId: 'cheap' } }),
    dearOffer(),
    testOffer(cheap.baseUrl, { modelId: 'alone', endpoint: { endpointId: 'alone' } }),
    testOffer(cheap.baseUrl, { modelId: 'cloudy', endpoint: { endpointId: 'cloudy', kind: 'cloud' } }),
    testOffer(cheap.baseUrl, { modelId: 'vectors', features: new Set(['embeddings']), endpoint: { endpointId: 'v' } }),
  ],
  yaml: `hosters: { allow_private_urls: true }
telemetry:
  endpoint: ${collector.url}
  headers: x-api-key=a%20secret
  service_name: gate
  metrics_seconds: 1
access_log: { format: off }`,
  timeouts: { spanDelayMs: 5 },
}))
const customer = useCustomer(gateway)
const hello = { model: 'alone', messages: [{ role: 'user', content: 'a secret prompt' }] }
const PARENT = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' }
const traceparent = `00-${PARENT.traceId}-${PARENT.spanId}-01`

/** Waits for the spans of a trace: that of the request, and those of its attempts in order. */
async function spansOf(traceId: string | null): Promise<{ request: ReceivedSpan; attempts: ReceivedSpan[] }> {
  const ofTrace = () => collector.spans.filter(span => span.traceId === traceId)
  await vi.waitFor(() => expect(ofTrace().some(({ kind }) => kind === 'server')).toBe(true), WAIT_OPTIONS)
  const request = ofTrace().find(({ kind }) => kind === 'server')
  if (request === undefined) throw new Error('no span of a request')
  const attempts = ofTrace().filter(({ kind }) => kind === 'client')
  return { request, attempts: attempts.toSorted((a, b) => Number(a.startNanos - b.startNanos)) }
}

const traceOf = (response: Response) => response.headers.get('x-switchyard-trace-id')

async function receiptOf(of: TestCustomer, requestId: string | null) {
  const response = await gateway.get(of, `/v1/usage/requests/${requestId}`)
  return (await response.json()) as { trace_id: string | null; candidates: unknown[]; attempts: unknown[] }
}

test('a request is a server span with a client span for its attempt', async () => {
  cheap.respondWith(answer({ usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 } }))
  const response = await gateway.chat(customer, { ...hello, temperature: 0.5, max_tokens: 50 })
  const requestId = response.headers.get('x-request-id')
  expect(traceOf(response)).toBe(requestId?.replaceAll('-', ''))
  const { request, attempts } = await spansOf(traceOf(response))
  expect(request).toMatchObject({
    name: 'POST /v1/chat/completions',
    parentSpanId: '',
    isError: false,
    resource: { 'service.name': 'gate', 'service.version': 'test', 'telemetry.sdk.language': 'nodejs' },
    attributes: {
      'http.request.method': 'POST',
      'http.route': '/v1/chat/completions',
      'http.response.status_code': 200,
      'switchyard.request.id': requestId,
      'switchyard.customer.id': customer.customerId,
      'switchyard.model.asked': 'alone',
      'switchyard.model.served': 'alone',
      'switchyard.outcome': 'served',
      'switchyard.choice.reason': 'only_offer',
      'switchyard.tier': 'balanced',
      'switchyard.privacy_mode': false,
      'switchyard.offer.id': 'alone/alone',
      'switchyard.provider.kind': 'local',
      'switchyard.cost_usd': 0.000013,
      'switchyard.tokens.input': 7,
      'switchyard.tokens.output': 3,
    },
  })
  expect(request.attributes['switchyard.held_usd']).toBeGreaterThan(0.000013)
  expect(attempts).toHaveLength(1)
  expect(attempts[0]).toMatchObject({
    name: 'chat upstream-alone',
    parentSpanId: request.spanId,
    isError: false,
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'local',
      'gen_ai.request.model': 'upstream-alone',
      'gen_ai.request.temperature': 0.5,
      'gen_ai.request.max_tokens': 50,
      'gen_ai.response.model': 'alone',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.input_tokens': 7,
      'gen_ai.usage.output_tokens': 3,
      'server.address': '127.0.0.1',
      'server.port': cheap.port,
      'switchyard.attempt.outcome': 'answered',
      'switchyard.cost_usd': 0.000013,
    },
  })
  expect(await receiptOf(customer, requestId)).toMatchObject({
    trace_id: traceOf(response),
    candidates: [{ status: 'answered' }],
  })
  expect(collector.requests[0]?.headers).toMatchObject({
    'x-api-key': 'a secret',
    'content-type': 'application/x-protobuf',
  })
})

test('the trace of a client goes on, also to servers of the operator, and not to clouds', async () => {
  const headers = { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', traceparent }
  const send = (body: object) => gateway.chat(customer, body, { headers: { ...headers, tracestate: 'vendor=1' } })
  const response = await send({ ...hello, stream: true })
  await response.text()
  expect(traceOf(response)).toBe(PARENT.traceId)
  const { request, attempts } = await spansOf(PARENT.traceId)
  expect(request.parentSpanId).toBe(PARENT.spanId)
  expect(attempts[0]?.attributes).toMatchObject({ 'gen_ai.request.stream': true })
  expect(attempts[0]?.attributes['gen_ai.response.time_to_first_chunk']).toEqual(expect.any(Number))
  expect(cheap.requests.at(-1)?.headers).toMatchObject({
    traceparent: `00-${PARENT.traceId}-${attempts[0]?.spanId}-01`,
    tracestate: 'vendor=1',
  })
  await send({ ...hello, model: 'cloudy' })
  expect(cheap.requests.at(-1)?.body.model).toBe('upstream-cloudy')
  expect(cheap.requests.at(-1)?.headers).not.toHaveProperty('traceparent')
  expect(cheap.requests.at(-1)?.headers).not.toHaveProperty('tracestate')
})

test('a trace that the client does not record is not recorded, and goes on as such', async () => {
  const parent = `00-${'a'.repeat(32)}-${PARENT.spanId}-00`
  const headers = { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', traceparent: parent }
  const response = await gateway.chat(customer, hello, { headers })
  expect(traceOf(response)).toBeNull()
  expect(cheap.requests.at(-1)?.headers.traceparent).toMatch(/^00-a{32}-[\da-f]{16}-00$/)
  expect(await receiptOf(customer, response.headers.get('x-request-id'))).toMatchObject({ trace_id: null })
  expect(collector.spans.filter(({ traceId }) => traceId === 'a'.repeat(32))).toEqual([])
})

test('each attempt of a failover is a span', async () => {
  cheap.respondWith(status(500))
  const response = await gateway.chat(customer, { ...hello, model: 'test-model' })
  expect(response.status).toBe(200)
  const { request, attempts } = await spansOf(traceOf(response))
  expect(attempts.map(({ isError, attributes }) => [isError, attributes['switchyard.endpoint.id']])).toEqual([
    [true, 'cheap'],
    [false, 'box'],
  ])
  expect(attempts[0]?.attributes).toMatchObject({
    'error.type': 'server_error',
    'http.response.status_code': 500,
    'switchyard.attempt.number': 1,
  })
  expect(attempts[1]?.attributes).toMatchObject({ 'switchyard.attempt.number': 2 })
  expect(request.attributes).toMatchObject({ 'switchyard.attempts': 2, 'switchyard.choice.reason': 'failover' })
  expect(dear.requests.at(-1)?.headers.traceparent).toBe(`00-${request.traceId}-${attempts[1]?.spanId}-01`)
})

test('a refused request is a span with its error', async () => {
  const response = await gateway.chat(customer, { ...hello, model: 'unknown' })
  const { request, attempts } = await spansOf(traceOf(response))
  expect(attempts).toEqual([])
  expect(request).toMatchObject({
    isError: false,
    attributes: {
      'http.response.status_code': 404,
      'error.type': 'model_not_found',
      'switchyard.error.code': 'model_not_found',
      'switchyard.model.asked': 'unknown',
    },
  })
  cheap.respondWith(status(500))
  dear.respondWith(status(500))
  const failed = await gateway.chat(customer, { ...hello, model: 'test-model' })
  expect((await spansOf(traceOf(failed))).request).toMatchObject({ isError: true })
})

test('embeddings and responses on a WebSocket have traces', async () => {
  cheap.respondWith(embeddings())
  const embedded = await fetch(`${gateway.url}/v1/embeddings`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'vectors', input: 'a secret text' }),
  })
  expect(embedded.status).toBe(200)
  const { attempts } = await spansOf(traceOf(embedded))
  expect(attempts[0]).toMatchObject({ name: 'embeddings upstream-vectors' })
  const socket = await openResponses(gateway, customer)
  socket.send({ type: 'response.create', model: 'alone', input: 'Hi' })
  await socket.untilEnd()
  const isOfSocket = ({ name }: ReceivedSpan) => name === 'POST /v1/responses'
  await vi.waitFor(() => expect(collector.spans.some(isOfSocket)).toBe(true), WAIT_OPTIONS)
})

test('a request with privacy_mode has a trace that says so', async () => {
  const response = await gateway.chat(customer, { ...hello, privacy_mode: true })
  expect((await spansOf(traceOf(response))).request.attributes).toMatchObject({ 'switchyard.privacy_mode': true })
})

test('the answer of a hoster names it, and its server learns nothing of the trace', async () => {
  const hosterId = await gateway.hoster({ baseUrl: hosted.baseUrl, models: [{ modelId: 'hosted-model' }] })
  const response = await gateway.chat(customer, { ...hello, model: 'hosted-model' })
  const { request, attempts } = await spansOf(traceOf(response))
  expect(request.attributes).toMatchObject({ 'switchyard.hoster.id': hosterId, 'switchyard.provider.kind': 'hoster' })
  expect(attempts[0]?.attributes).toMatchObject({ 'gen_ai.provider.name': 'hoster', 'switchyard.hoster.id': hosterId })
  expect(hosted.requests.at(-1)?.headers).not.toHaveProperty('traceparent')
})

test('metrics count by model and provider', async () => {
  const of = (metric: string, match: object) =>
    collector.points.filter(
      point => point.metric === metric && expect.objectContaining(match).asymmetricMatch(point.attributes),
    )
  const alone = { 'gen_ai.request.model': 'alone', 'gen_ai.provider.name': 'local' }
  await vi.waitFor(() => {
    const [tokens] = of('gen_ai.client.token.usage', {
      ...alone,
      'gen_ai.token.type': 'input',
      'gen_ai.operation.name': 'chat',
    })
    expect(tokens?.sum).toBeGreaterThanOrEqual(7)
    expect(of('gen_ai.client.operation.duration', alone).length).toBeGreaterThan(0)
    expect(of('gen_ai.client.operation.time_to_first_chunk', alone)[0]?.count).toBeGreaterThan(0n)
    expect(of('gen_ai.client.operation.duration', { 'error.type': 'unserved' })).toHaveLength(1)
  }, WAIT_OPTIONS)
})

test('no span has a text of a request, an answer or a key', () => {
  expect(collector.spans.length).toBeGreaterThan(10)
  const all = JSON.stringify(collector.spans, (_, value) => (typeof value === 'bigint' ? String(value) : value))
  expect(all).not.toContain('secret')
  expect(all).not.toContain(customer.key)
  expect(all).not.toContain('Hello')
})

// They would fill the queue of spans, and the collector would bill them.
test('requests without a key have no trace', async () => {
  const before = collector.spans.length
  const refused = await gateway.chat({ ...customer, key: `${customer.key}x` }, hello, { headers: { traceparent } })
  expect(refused.status).toBe(401)
  expect(traceOf(refused)).toBeNull()
  const next = await gateway.chat(customer, hello)
  await spansOf(traceOf(next))
  expect(collector.spans.slice(before).filter(({ traceId }) => traceId !== traceOf(next))).toEqual([])
})

describe('a collector that', () => {
  const start = async (endpoint: string) => {
    const lines: string[] = []
    const app = await startTestApp({
      offers: [testOffer(cheap.baseUrl)],
      yaml: `telemetry: { endpoint: "${endpoint}", metrics: false }`,
      timeouts: { spanDelayMs: 1, telemetryCloseMs: 50 },
      onLog: line => lines.push(line),
    })
    return { app, lines, warnings: () => lines.filter(line => line.includes('cannot be exported')) }
  }

  test('refuses what it gets disturbs no request, and the log has one line a minute', async () => {
    const refusing = await startOtlpReceiver()
    refusing.respondWith(response => void response.writeHead(400).end('a secret reason'))
    const { app, warnings } = await start(refusing.url)
    const someone = await app.customer()
    for (let n = 1; n <= 3; n++) {
      expect((await app.chat(someone, { ...hello, model: 'test-model' })).status).toBe(200)
      await vi.waitFor(() => expect(refusing.requests.length).toBeGreaterThanOrEqual(n), WAIT_OPTIONS)
    }
    await app.stop()
    expect(warnings()).toHaveLength(1)
    expect(warnings()[0]).not.toContain('secret')
    await app.close()
    await refusing.close()
  })

  test('never answers disturbs neither requests nor the stop', async () => {
    const silent = await startOtlpReceiver()
    silent.respondWith(() => {})
    const { app } = await start(silent.url)
    const someone = await app.customer()
    expect((await app.chat(someone, { ...hello, model: 'test-model' })).status).toBe(200)
    await vi.waitFor(() => expect(silent.requests.length).toBeGreaterThan(0), WAIT_OPTIONS)
    expect((await app.chat(someone, { ...hello, model: 'test-model' })).status).toBe(200)
    await app.stop()
    await app.close()
    await silent.close()
  })

  test('is there gets the last spans when the gateway stops', async () => {
    const late = await startOtlpReceiver()
    const app = await startTestApp({
      offers: [testOffer(cheap.baseUrl)],
      yaml: `telemetry: { endpoint: "${late.url}" }`,
      timeouts: { spanDelayMs: 60_000 },
    })
    await app.chat(await app.customer(), { ...hello, model: 'test-model' })
    await app.stop()
    expect(late.spans.map(({ kind }) => kind).sort()).toEqual(['client', 'server'])
    expect(late.points.length).toBeGreaterThan(0)
    await app.close()
    await late.close()
  })
})

test('without an endpoint there is no header, and no trace on the receipt', async () => {
  const app = await startTestApp({ offers: [testOffer(cheap.baseUrl)] })
  const someone = await app.customer()
  const headers = { authorization: `Bearer ${someone.key}`, 'content-type': 'application/json', traceparent }
  const response = await app.chat(someone, { ...hello, model: 'test-model' }, { headers })
  expect(traceOf(response)).toBeNull()
  expect(cheap.requests.at(-1)?.headers).not.toHaveProperty('traceparent')
  await app.close()
})
