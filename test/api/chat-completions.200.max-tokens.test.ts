import { beforeAll, describe, expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { readEventStream } from '../harness/event-stream.ts'
import { answer, sse, status, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 1_000_000n }
const gateway = useTestApp(() => ({
  offers: [
    // As a local server with a context of 32,768 tokens, which may all be output.
    testOffer(upstream.baseUrl, { modelId: 'local', price, maxOutputTokens: 32_768 }),
    testOffer(upstream.baseUrl, {
      modelId: 'mixed',
      price,
      maxOutputTokens: 100,
      endpoint: { endpointId: 'short' },
    }),
    testOffer(upstream.baseUrl, {
      modelId: 'mixed',
      price,
      maxOutputTokens: 400,
      endpoint: { endpointId: 'long', kind: 'cloud' },
    }),
  ],
}))
beforeAll(() => upstream.always(answer({ usage: usageOf(10, 5) })))

const messages = [{ role: 'user', content: 'Hello' }]

async function send(body: object) {
  const customer = await gateway.customer()
  const sentBefore = upstream.requests.length
  const response = await gateway.chat(customer, { messages, ...body })
  expect(response.status).toBe(200)
  const sent = upstream.requests.slice(sentBefore).map(request => request.body.max_tokens)
  const header = response.headers.get('x-switchyard-max-tokens')
  const stream = response.headers.get('content-type')?.includes('event-stream') ? await readEventStream(response) : null
  if (stream === null) await response.text()
  const receipt = await gateway.get(customer, `/v1/usage/requests/${response.headers.get('x-request-id')}`)
  const { max_tokens_clamp } = (await receipt.json()) as { max_tokens_clamp: unknown }
  return { sent, header, stream, clamp: max_tokens_clamp, row: (await gateway.usage(customer))[0]! }
}

describe('a max_tokens above what the model generates', () => {
  test.each([
    ['max_tokens', 32_000, null, 'Hello'],
    // A prompt of 30,000 bytes has likely at most 10,500 tokens.
    ['max_tokens', 32_000, 22_268, 'x'.repeat(29_920)],
    ['max_completion_tokens', 64_000, 32_738, 'Hello'],
  ])('%s of %i is lowered to %j, as a header and the receipt say', async (field, asked, allowed, content) => {
    const { sent, header, clamp } = await send({
      model: 'local',
      messages: [{ role: 'user', content }],
      [field]: asked,
    })
    expect(sent).toEqual([allowed ?? asked])
    expect(header).toBe(allowed === null ? null : String(allowed))
    expect(clamp).toEqual(allowed === null ? null : { asked, allowed, by: 'model' })
  })

  test('holds the money for what the server gets', async () => {
    const { row } = await send({ model: 'mixed', max_tokens: 32_000, privacy_mode: true })
    // 85 tokens of the prompt and 100 of the answer.
    expect(row.hold_nanos).toBe(185_000n)
  })

  test('is enforced for a server that ignores it', async () => {
    upstream.respondWith(sse(streamEvents({ text: 'word '.repeat(500), usage: usageOf(10, 500) })))
    const { stream, row } = await send({ model: 'mixed', max_tokens: 32_000, privacy_mode: true, stream: true })
    expect(stream!.chunks.some(({ choices }) => choices?.[0]?.finish_reason === 'length')).toBe(true)
    expect(row.output_tokens).toBeLessThanOrEqual(100)
  })

  test('is enforced for words so long that the text is counted in parts', async () => {
    const text = Array.from({ length: 20 }, () => 'a'.repeat(5_000)).join(' ')
    upstream.respondWith(sse(streamEvents({ text, usage: usageOf(10, 2_000) })))
    const { stream, row } = await send({ model: 'local', max_tokens: 2_000, stream: true })
    const texts = stream!.chunks.map(({ choices }) => choices?.[0]?.delta.content ?? '')
    expect(stream!.chunks.some(({ choices }) => choices?.[0]?.finish_reason === 'length')).toBe(true)
    // Eight characters a token are not counted, and one piece of the stream arrives after that.
    expect(texts.join('').length).toBeLessThan(2_000 * 8 + 5_000 + 8_192)
    expect(row.output_tokens).toBe(2_000)
  })

  test('prefers the server that generates more, and lowers it further for a server that generates less', async () => {
    const first = await send({ model: 'mixed', max_tokens: 32_000 })
    expect([first.sent, first.header, first.clamp]).toEqual([
      [400],
      '400',
      { asked: 32_000, allowed: 400, by: 'model' },
    ])
    upstream.respondWith(status(500))
    const second = await send({ model: 'mixed', max_tokens: 300 })
    expect([second.sent, second.header]).toEqual([[300, 100], '100'])
    expect(second.clamp).toEqual({ asked: 300, allowed: 100, by: 'model' })
  })

  test('is lowered in a quote too', async () => {
    const response = await gateway.chat(await gateway.customer(), {
      model: 'mixed',
      messages,
      max_tokens: 32_000,
      dry_run: true,
    })
    expect(await response.json()).toMatchObject({
      max_tokens: 400,
      max_tokens_clamped_by: 'model',
      candidates: [
        { endpoint: 'long', max_tokens: 400 },
        { endpoint: 'short', max_tokens: 100 },
      ],
    })
  })
})
