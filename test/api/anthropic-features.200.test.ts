import Anthropic from '@anthropic-ai/sdk'
import { describe, expect, test } from 'vitest'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import { costNanos } from '../../src/base/domain/money.ts'
import { startTestApp, testOffer } from '../harness/app.ts'
import { answer, startScriptedUpstream, status } from '../harness/scripted-upstream.ts'
import { type VendorAnswer, vendorAnswer } from '../harness/scripted-vendors.ts'
import { useResource } from '../harness/use-resource.ts'

// Citations and the tools of Anthropic's own models, which only servers of messages serve.

const world = useResource(
  async () => {
    const native = await startScriptedUpstream()
    const other = await startScriptedUpstream()
    const offerOf = (modelId: string, at: typeof native, speaks?: readonly Dialect[]) => {
      const endpointId = `${speaks?.join('-') ?? 'plain'}-${modelId}`
      const offer = testOffer(at.baseUrl, { modelId, endpoint: { endpointId } })
      return speaks === undefined ? offer : { ...offer, speaks }
    }
    const offers = [
      // The first one would be asked if it could serve the request.
      offerOf('mixed', other),
      offerOf('mixed', other, ['responses', 'gemini']),
      offerOf('mixed', native, ['chat', 'messages']),
      offerOf('native', native, ['messages']),
      offerOf('chat-only', other),
      offerOf('foreign', other, ['responses', 'gemini', 'chat']),
    ]
    return { native, other, offers, gateway: await startTestApp({ offers }) }
  },
  async ({ native, other, gateway }) => {
    await gateway.close()
    await native.close()
    await other.close()
  },
)

const place = { type: 'char_location', document_index: 0, document_title: 'Sea', file_id: null } as const
const citations: readonly Anthropic.TextCitation[] = [
  { ...place, cited_text: 'The sea is blue.', start_char_index: 0, end_char_index: 16 },
  { ...place, cited_text: 'It is ü wide.', start_char_index: 17, end_char_index: 30 },
]
const blocks = [
  { text: 'By the document, ', citations: [] },
  { text: 'the sea is blue ', citations: [citations[0]!] },
  { text: 'and ü 😀 wide', citations },
]
const cited: VendorAnswer = { text: 'Well: ', cited: blocks }
const expectedBlocks = [
  { type: 'text', text: 'Well: ' },
  { type: 'text', text: 'By the document, ' },
  { type: 'text', text: 'the sea is blue ', citations: [citations[0]] },
  { type: 'text', text: 'and ü 😀 wide', citations },
]
const document: Anthropic.DocumentBlockParam = {
  type: 'document',
  source: { type: 'text', media_type: 'text/plain', data: 'The sea is blue. It is ü wide.' },
  title: 'Sea',
  citations: { enabled: true },
}
const question: Anthropic.MessageParam = {
  role: 'user',
  content: [document, { type: 'text', text: 'How is the sea?' }],
}
const request = { model: 'mixed', max_tokens: 64, messages: [question] }

async function setUp() {
  const customer = await world.gateway.customer()
  const sdk = new Anthropic({ apiKey: customer.key, authToken: null, baseURL: world.gateway.url, maxRetries: 0 })
  const post = (body: object, path = '/v1/messages') =>
    fetch(`${world.gateway.url}${path}`, {
      method: 'POST',
      headers: { 'x-api-key': customer.key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  return { customer, sdk, post }
}

/** Expects that only the native server was asked since the last call. */
function nativeRequest() {
  expect(world.other.requests).toEqual([])
  const request = world.native.requests.at(-1)!
  expect(request.path).toBe('/v1/messages')
  return request
}

describe('citations', () => {
  test('reach the client whole, and in a stream that is split at every byte', async () => {
    const { sdk } = await setUp()
    world.native.respondWith(vendorAnswer('messages', cited), vendorAnswer('messages', cited, true))
    const whole = await sdk.messages.create(request)
    expect(whole.content).toEqual(expectedBlocks)
    expect(nativeRequest().body.messages).toEqual([question])
    const seen: Anthropic.TextCitation[] = []
    const stream = sdk.messages.stream(request).on('citation', citation => seen.push(citation))
    expect((await stream.finalMessage()).content).toEqual(expectedBlocks)
    expect(seen).toEqual([citations[0], ...citations])
    nativeRequest()
  })

  test('of search results, before their text and with a tool call after it', async () => {
    const { sdk } = await setUp()
    const found: Anthropic.SearchResultBlockParam = {
      type: 'search_result',
      source: 'https://example.com/sea',
      title: 'Sea',
      content: [{ type: 'text', text: 'The sea is blue.' }],
      citations: { enabled: true },
    }
    const calls = [{ id: 'call_1', name: 'look', args: { at: 'sea' } }]
    const thinking = { text: 'Hm.', seal: 'a-seal' }
    for (const isWhole of [true, false]) {
      world.native.respondWith(vendorAnswer('messages', { ...cited, thinking, calls }, true))
      const body: Anthropic.MessageCreateParamsNonStreaming = {
        ...request,
        thinking: { type: 'adaptive', display: 'summarized' },
        tools: [{ name: 'look', input_schema: { type: 'object' } }],
        messages: [{ role: 'user', content: [found, { type: 'text', text: 'How is the sea?' }] }],
      }
      const message = await (isWhole ? sdk.messages.create(body) : sdk.messages.stream(body).finalMessage())
      expect(message.content).toEqual([
        { type: 'thinking', thinking: 'Hm.', signature: 'a-seal' },
        ...expectedBlocks,
        { type: 'tool_use', id: 'call_1', name: 'look', input: { at: 'sea' } },
      ])
      expect(nativeRequest().rawBody).toContain('"citations":{"enabled":true}')
    }
  })

  test('go back with the next turn', async () => {
    const { sdk } = await setUp()
    world.native.respondWith(vendorAnswer('messages', cited), vendorAnswer('messages', { text: 'Yes.' }))
    const first = await sdk.messages.create(request)
    const messages = [question, { role: 'assistant' as const, content: first.content }, question]
    await sdk.messages.create({ ...request, messages: messages as Anthropic.MessageParam[] })
    expect(nativeRequest().body.messages).toEqual(messages)
  })

  test('beyond what an answer may have besides its text end a stream', async () => {
    const { sdk } = await setUp()
    const many = Array.from({ length: 1_000 }, () => ({ ...citations[0]!, cited_text: 'x'.repeat(1_000) }))
    world.native.respondWith(vendorAnswer('messages', { cited: [{ text: 'Blue.', citations: many }] }))
    const { content, stop_reason } = await sdk.messages.stream(request).finalMessage()
    expect(stop_reason).toBe('max_tokens')
    const received = (content[0] as Anthropic.TextBlock).citations!.length
    // 256 KiB, and 1 KiB for each of 64 tokens.
    expect(received > 200 && received < 400).toBe(true)
  })

  test('that no client asked for are left out, and their text is one block', async () => {
    const { sdk } = await setUp()
    world.native.respondWith(vendorAnswer('messages', cited))
    const messages = [{ role: 'user' as const, content: 'Hi' }]
    const { content } = await sdk.messages.create({ ...request, model: 'native', messages })
    expect(content).toEqual([{ type: 'text', text: expectedBlocks.map(({ text }) => text).join('') }])
  })
})

describe("tools of Anthropic's models", () => {
  const computer = { name: 'computer', display_width_px: 1_024, display_height_px: 768 }
  const cases: [name: string, tools: object[], beta: string | undefined][] = [
    ['computer_20251124', [{ type: 'computer_20251124', ...computer }], 'computer-use-2025-11-24'],
    [
      'two versions',
      [
        { type: 'computer_20250124', ...computer },
        { type: 'bash_20241022', name: 'bash' },
      ],
      'computer-use-2025-01-24,computer-use-2024-10-22',
    ],
    ['memory_20250818', [{ type: 'memory_20250818', name: 'memory' }], undefined],
    ['computer_toolset_20260801', [{ type: 'computer_toolset_20260801' }], undefined],
  ]

  test.each(cases)('%s is sent as it is, with the header of its beta', async (_, tools, beta) => {
    const { post } = await setUp()
    const calls = [
      { id: 'call_1', name: 'screenshot', args: {}, toolset: 'computer' },
      { id: 'call_2', name: 'memory', args: { command: 'view', path: '/memories' } },
    ]
    const body = { ...request, model: 'native', messages: [{ role: 'user', content: 'Look!' }], tools }
    for (const stream of [false, true]) {
      world.native.respondWith(vendorAnswer('messages', { text: 'I look.', calls }, true))
      const response = await post({ ...body, stream })
      const text = await response.text()
      expect(response.status).toBe(200)
      const message = stream ? blocksOfStream(text) : (JSON.parse(text) as Anthropic.Message).content
      expect(message).toMatchObject([
        { type: 'text' },
        { type: 'tool_use', id: 'call_1', name: 'screenshot', toolset_name: 'computer' },
        { type: 'tool_use', id: 'call_2', name: 'memory' },
      ])
      expect(Object.keys(message.at(-1)!)).not.toContain('toolset_name')
      const sent = nativeRequest()
      expect([sent.body.tools, sent.headers['anthropic-beta']]).toEqual([tools, beta])
    }
  })

  test('do not change the head of the next request', async () => {
    const { post } = await setUp()
    for (const tools of [[{ type: 'computer_20251124', ...computer }], [{ name: 'look', input_schema: {} }]]) {
      world.native.respondWith(vendorAnswer('messages', { text: 'Done.' }))
      const messages = [{ role: 'user', content: 'Look!' }]
      expect((await post({ ...request, model: 'native', messages, tools })).status).toBe(200)
    }
    expect(world.native.requests.slice(-2).map(({ headers }) => headers['anthropic-beta'])).toEqual([
      'computer-use-2025-11-24',
      undefined,
    ])
  })

  test('are held and billed with what Anthropic adds to the prompt', async () => {
    const { customer, post } = await setUp()
    const messages = [{ role: 'user', content: 'Look!' }]
    // Its price list: about 6,670 tokens for the largest toolset.
    const usage = { input_tokens: 6_700, output_tokens: 5 }
    world.native.respondWith(
      status(200, {
        ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_reason: 'end_turn', usage },
        content: [{ type: 'text', text: 'Done.' }],
      }),
    )
    const tools = [{ type: 'browser_toolset_20260801' }]
    expect(await (await post({ ...request, messages, tools })).json()).toMatchObject({ usage })
    const [row] = await world.gateway.settled(customer, 1)
    expect(row!.cost_nanos).toBe(costNanos(world.offers[0]!.price, 6_700, 5))
    expect(row!.hold_nanos >= row!.cost_nanos).toBe(true)
  })
})

describe('offers that do not speak messages', () => {
  const toolset = {
    ...request,
    tools: [{ type: 'computer_toolset_20260801' }],
    messages: [{ role: 'user', content: 'Look!' }],
  }

  test.each([
    ['citations', request],
    ['a toolset of Anthropic', toolset],
  ])('are excluded by %s, as a dry run and the receipt show', async (_, body) => {
    const { customer, post } = await setUp()
    const quote = (await (await post({ ...body, dry_run: true })).json()) as {
      candidates: { endpoint: string }[]
      excluded: { endpoint: string; reason: string }[]
    }
    expect(quote.candidates.map(({ endpoint }) => endpoint)).toEqual(['chat-messages-mixed'])
    const excluded = [
      { endpoint: 'plain-mixed', reason: 'feature_missing' },
      { endpoint: 'responses-gemini-mixed', reason: 'feature_missing' },
    ]
    expect(quote.excluded).toMatchObject(excluded)
    world.native.respondWith(vendorAnswer('messages', { text: 'Done.' }))
    const response = await post(body)
    expect(response.status).toBe(200)
    await world.gateway.settled(customer, 1)
    const id = response.headers.get('request-id')!
    const receipt = await world.gateway.get(customer, `/v1/usage/requests/${id}`)
    expect(JSON.stringify(await receipt.json())).toContain('feature_missing')
  })

  test.each(['chat-only', 'foreign'])('refuse the request if there is no other: %s', async model => {
    const { customer, post } = await setUp()
    for (const body of [request, toolset]) {
      const response = await post({ ...body, model })
      const { error } = (await response.json()) as { error: { code: string; message: string } }
      expect([response.status, error.code]).toEqual([400, 'feature_not_supported'])
      expect(error.message).toContain("citations or a toolset of one vendor's models) excluded 1 offer")
    }
    expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n)
  })

  test('serve the same request without the feature', async () => {
    const { sdk } = await setUp()
    world.other.respondWith(answer({ text: 'Blue.' }))
    const { citations: _, ...plain } = document
    const messages = [{ role: 'user' as const, content: [plain] }]
    const { content } = await sdk.messages.create({ ...request, model: 'chat-only', messages })
    expect(content).toEqual([{ type: 'text', text: 'Blue.' }])
  })
})

test('the input of such requests can be counted', async () => {
  const { post } = await setUp()
  const response = await post({ model: 'mixed', messages: [question] }, '/v1/messages/count_tokens')
  expect([response.status, await response.json()]).toEqual([200, { input_tokens: expect.any(Number) }])
})

/** Returns the blocks as they start in a stream. */
function blocksOfStream(text: string): object[] {
  return text.split('\n').flatMap(line => {
    if (!line.startsWith('data: {"type":"content_block_start"')) return []
    return [(JSON.parse(line.slice('data: '.length)) as { content_block: object }).content_block]
  })
}
