import { createVerify } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import type { Answer } from '../../src/base/domain/handoff.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import type { Unserved } from '../../src/base/domain/upstream-failure.ts'
import type { Clock } from '../../src/base/runtime/scheduler.ts'
import { chatJobOf } from '../../src/wire/dialects/chat/conversation-to-chat.ts'
import { parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'
import { nativeTask } from '../../src/wire/dialects/native-task.ts'
import { type Behaviour, type RecordedRequest, status } from '../harness/scripted-upstream.ts'
import { type NativeDialect, vendorAnswer } from '../harness/scripted-vendors.ts'
import { serviceAccount, serviceKeys } from '../harness/service-account.ts'
import { useResource } from '../harness/use-resource.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { jobOf, offerAt, readStream, startDispatching } from './dispatching.ts'

const vertex = useUpstream('test')
const google = useUpstream('test')
const spare = useUpstream('test')

/** A clock that only the test moves. */
let nowMs = 0
let skewMs = 0
const clock: Clock = { monotonicMs: () => nowMs, epochMs: () => Date.now() + skewMs }
const dispatching = useResource(
  async () => startDispatching({ tokenClock: clock }),
  resource => resource.close(),
  'test',
)

beforeEach(() => {
  nowMs = 1_000
  skewMs = 0
  let count = 0
  google.always((request, response) => token(`token-${++count}`)(request, response))
})

function token(text: string, expiresIn: unknown = 3_600): Behaviour {
  return status(200, { access_token: text, expires_in: expiresIn, token_type: 'Bearer' })
}

function vertexOffer(dialect: 'gemini' | 'messages', upstreamModel = 'their-model', more: Partial<Offer> = {}): Offer {
  const offer = offerAt(`http://127.0.0.1:${vertex.port}/v1/projects/p/locations/global`, { name: 'vertex' })
  const credential = serviceAccount(`http://127.0.0.1:${google.port}/token`)
  return {
    ...offer,
    upstreamModel,
    endpoint: { ...offer.endpoint, apiKey: null, credential },
    speaks: [dialect],
    ...more,
  }
}

const contentOf = (answered: Answer) =>
  answered.kind === 'whole' ? answered.completion.choices[0]!.message.content : undefined
const bearersOf = (requests: readonly RecordedRequest[]) => requests.map(({ headers }) => headers.authorization)
const hello = (dialect: NativeDialect) => vendorAnswer(dialect, { text: 'Hello.' })

/** The claims of the assertion in a request to the token endpoint, after its signature was verified. */
function claimsOf({ rawBody }: RecordedRequest) {
  const form = new URLSearchParams(rawBody)
  const [header, claims, signature] = form.get('assertion')!.split('.') as [string, string, string]
  const isSigned = createVerify('RSA-SHA256')
    .update(`${header}.${claims}`)
    .verify(serviceKeys.publicKey, signature, 'base64url')
  const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
  return { grant: form.get('grant_type'), isSigned, header: read(header), claims: read(claims) }
}

test('Gemini on Vertex is asked with a token that the key of the service account bought', async () => {
  vertex.always(hello('gemini'))
  const offer = vertexOffer('gemini', 'gemini-3.7-flash')
  expect(contentOf(await dispatching.send(offer))).toBe('Hello.')
  const streamed = await readStream(await dispatching.send(offer, { stream: true }))
  expect(streamed).toMatchObject({ text: 'Hello.', failure: null })
  const base = '/v1/projects/p/locations/global/publishers/google/models/gemini-3.7-flash'
  expect(vertex.requests.map(({ path }) => path)).toEqual([
    `${base}:generateContent`,
    `${base}:streamGenerateContent?alt=sse`,
  ])
  expect(bearersOf(vertex.requests)).toEqual(['Bearer token-1', 'Bearer token-1'])
  expect(google.requests.map(({ path, headers }) => [path, headers['content-type']])).toEqual([
    ['/token', 'application/x-www-form-urlencoded'],
  ])
  const { grant, isSigned, header, claims } = claimsOf(google.requests[0]!)
  expect([grant, isSigned, header]).toEqual([
    'urn:ietf:params:oauth:grant-type:jwt-bearer',
    true,
    { alg: 'RS256', typ: 'JWT', kid: 'key-1' },
  ])
  expect(claims).toMatchObject({
    iss: 'gateway@my-project.iam.gserviceaccount.com',
    aud: `http://127.0.0.1:${google.port}/token`,
    scope: 'https://www.googleapis.com/auth/cloud-platform',
  })
  expect(claims.exp - claims.iat).toBe(3_600)
})

test('Claude on Vertex has its model in the path and its version in the body', async () => {
  vertex.always(hello('messages'))
  const offer = vertexOffer('messages', 'claude-haiku-4-5@20251001')
  expect(contentOf(await dispatching.send(offer))).toBe('Hello.')
  expect((await readStream(await dispatching.send(offer, { stream: true }))).text).toBe('Hello.')
  const base = '/v1/projects/p/locations/global/publishers/anthropic/models/claude-haiku-4-5@20251001'
  expect(vertex.requests.map(({ path }) => path)).toEqual([`${base}:rawPredict`, `${base}:streamRawPredict`])
  for (const { body } of vertex.requests) {
    expect(body.anthropic_version).toBe('vertex-2023-10-16')
    expect(body).not.toHaveProperty('model')
  }
})

test('requests that wait for a token share one', async () => {
  vertex.always(hello('gemini'))
  const offer = vertexOffer('gemini')
  const answers = await Promise.all(Array.from({ length: 20 }, () => dispatching.send(offer)))
  expect(answers.map(contentOf)).toEqual(Array(20).fill('Hello.'))
  expect(google.requests).toHaveLength(1)
})

test('a token is renewed before it ends, without a wait, and is not used after it', async () => {
  vertex.always(hello('gemini'))
  const offer = vertexOffer('gemini')
  await dispatching.send(offer)
  nowMs += 3_300_000 - 1
  await dispatching.send(offer)
  expect(google.requests).toHaveLength(1)
  // Five minutes before its end, requests still use it while the next one is fetched.
  nowMs += 1
  const renewal = Promise.withResolvers<void>()
  google.respondWith(async (request, response) => {
    await renewal.promise
    await token('renewed')(request, response)
  })
  await dispatching.send(offer)
  await dispatching.send(offer)
  expect(bearersOf(vertex.requests).at(-1)).toBe('Bearer token-1')
  // It ended during the renewal: the next request waits.
  nowMs += 300_000
  const waiting = dispatching.send(offer)
  await google.next()
  await google.next()
  renewal.resolve()
  await waiting
  expect(bearersOf(vertex.requests).at(-1)).toBe('Bearer renewed')
  expect(google.requests).toHaveLength(2)
})

test('a renewal that fails costs no request, as long as the token is valid', async () => {
  vertex.always(hello('gemini'))
  const offer = vertexOffer('gemini')
  await dispatching.send(offer)
  nowMs += 3_400_000
  google.respondWith(status(503, { error: 'unavailable' }))
  for (let i = 0; i < 3; i++) await dispatching.send(offer)
  expect(bearersOf(vertex.requests)).toEqual(Array(4).fill('Bearer token-1'))
})

test('a token that the server refuses is replaced, once', async () => {
  const offer = vertexOffer('gemini')
  vertex.always(hello('gemini'))
  await dispatching.send(offer)
  nowMs += 60_000
  const refusal = status(401, { error: { code: 401, message: 'Expired.', status: 'UNAUTHENTICATED' } })
  vertex.respondWith(refusal)
  expect(contentOf(await dispatching.send(offer))).toBe('Hello.')
  expect(bearersOf(vertex.requests)).toEqual(['Bearer token-1', 'Bearer token-1', 'Bearer token-2'])
  // For a stream too. A new token that is refused is not replaced.
  nowMs += 60_000
  vertex.respondWith(refusal, refusal)
  const failure: Unserved = await dispatching.send(offer, { stream: true }).then(Promise.reject, thrown => thrown)
  expect(failure.attempts.map(({ outcome }) => outcome)).toEqual(['credential_rejected'])
  vertex.respondWith(refusal)
  await expect(dispatching.send(offer)).rejects.toThrow()
  expect(google.requests).toHaveLength(3)
})

test.each<[string, Behaviour, string]>([
  ['a refusal', status(400, { error: 'invalid_grant', error_description: 'a secret text' }), 'credential_rejected'],
  ['an error', status(500, '<html>'), 'server_error'],
  ['a limit', status(429, { error: 'rate_limit' }), 'busy'],
  ['no token', status(200, { expires_in: 3_600 }), 'malformed'],
  ['a token with a line break', token('a\r\nx-evil: 1'), 'malformed'],
  ['no lifetime', token('token', 'long'), 'malformed'],
  ['an endless answer', status(200, 'x'.repeat(70_000)), 'connect_failed'],
  ['a cut', (_request, response) => void response.destroy(), 'connect_failed'],
])('%s of the token endpoint is a fault of that server: the next one answers', async (_name, behaviour, outcome) => {
  google.always(behaviour)
  const offers = [vertexOffer('gemini'), offerAt(spare.baseUrl, { name: 'spare' })]
  const answered = await dispatching.send(offers)
  expect(contentOf(answered)).toBeDefined()
  expect(answered.attempts.map(attempt => attempt.outcome)).toEqual([outcome, 'answered'])
  expect(vertex.requests).toEqual([])
  // Further requests do not wait for an endpoint that has just failed.
  const asked = google.requests.length
  await dispatching.send(offers)
  expect(google.requests).toHaveLength(asked)
  nowMs += 5_000
  await dispatching.send(offers)
  expect(google.requests.length).toBeGreaterThan(asked)
})

test('errors name neither the key, nor the assertion, nor texts of the token endpoint', async () => {
  google.always(status(400, { error: 'invalid_grant', error_description: 'a secret text' }))
  const failure: Unserved = await dispatching.send(vertexOffer('gemini')).then(Promise.reject, thrown => thrown)
  const seen = JSON.stringify([failure, failure.message, (failure as { internal?: unknown }).internal])
  expect(seen).toContain('invalid_grant')
  const assertion = new URLSearchParams(google.requests[0]!.rawBody).get('assertion')!
  for (const secret of ['a secret text', assertion, 'PRIVATE KEY']) expect(seen).not.toContain(secret)
})

test.each([-3_600_000, 3_600_000])('a clock that is off by %d ms is corrected by that of Google', async off => {
  skewMs = off
  vertex.always(hello('gemini'))
  google.always((request, response) => {
    const { iat } = claimsOf(request).claims
    const isNow = Math.abs(iat - Date.now() / 1_000) < 300
    return (isNow ? token('token-now') : status(400, { error: 'invalid_grant' }))(request, response)
  })
  expect(contentOf(await dispatching.send(vertexOffer('gemini')))).toBe('Hello.')
  expect(google.requests).toHaveLength(2)
})

test('a client that leaves while its request waits for a token ends it', async () => {
  google.always(() => {})
  const client = new AbortController()
  const sending = dispatching.send(vertexOffer('gemini'), {}, client.signal)
  await google.next()
  client.abort()
  const failure: Unserved = await sending.then(Promise.reject, thrown => thrown)
  expect(failure.attempts.map(({ outcome }) => outcome)).toEqual(['not_sent'])
})

test('the path of Vertex depends on the credential, not on the address', () => {
  const { path } = nativeTask(jobOf(), vertexOffer('messages'))
  const plain = offerAt('https://europe-west1-aiplatform.googleapis.com/v1')
  expect(typeof path === 'function' && path({ ...plain, upstreamModel: 'm' }, false)).toBe('/messages')
})

test.each([
  ['https://api.anthropic.com/v1', true],
  ['https://bedrock-mantle.us-east-1.api.aws/anthropic/v1', true],
  ['https://aiplatform.googleapis.com/v1/projects/p/locations/global', true],
  ['https://api.aws.example.com/v1', false],
])('at %s, the billing header of Claude Code is kept: %s', (baseUrl, isKept) => {
  const offer: Offer = { ...offerAt(baseUrl), speaks: ['messages'] }
  const system = [{ type: 'text', text: 'x-anthropic-billing-header: a' }]
  const body = { model: 'm', max_tokens: 9, system, messages: [{ role: 'user', content: 'Hi' }] }
  const job = chatJobOf(parseMessagesRequest(Buffer.from(JSON.stringify(body))), new Map())
  expect(nativeTask(job, offer).requestBody(job, offer, 9).includes('billing-header')).toBe(isKept)
})
