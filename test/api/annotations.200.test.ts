import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import { startTestApp, testOffer } from '../harness/app.ts'
import { startScriptedUpstream } from '../harness/scripted-upstream.ts'
import { vendorAnswer } from '../harness/scripted-vendors.ts'
import { useResource } from '../harness/use-resource.ts'

// The sources that OpenAI's models name, between clients and servers of its two dialects.

const servers = ['chat', 'responses'] as const
const world = useResource(
  async () => {
    const upstream = await startScriptedUpstream()
    const offers = servers.map(server => {
      const offer = testOffer(upstream.baseUrl, { modelId: server, endpoint: { endpointId: server } })
      return { ...offer, speaks: [server] as readonly Dialect[] }
    })
    return { upstream, gateway: await startTestApp({ offers }) }
  },
  async ({ upstream, gateway }) => {
    await gateway.close()
    await upstream.close()
  },
)

const text = 'The sea is 😀 blue, says A; and wide, says B.'
const source = (start_index: number, end_index: number, title: string) =>
  ({ type: 'url_citation', start_index, end_index, title, url: `https://${title}.example.com/ü` }) as const
const annotations = [source(0, 17, 'A'), source(27, 35, 'B')]
const inChat = annotations.map(({ type, ...url_citation }) => ({ type, url_citation }))
const calls = [{ id: 'call_1', name: 'look', args: { at: 'sea' } }]
const tools = { type: 'object', properties: { at: { type: 'string' } } }

async function setUp() {
  const customer = await world.gateway.customer()
  return new OpenAI({ apiKey: customer.key, baseURL: `${world.gateway.url}/v1`, maxRetries: 0 })
}

describe.each(servers)('the annotations of a server of %s', server => {
  test('reach a client of chat, whole and in a stream that is split at every byte', async () => {
    const sdk = await setUp()
    const request = { model: server, messages: [{ role: 'user' as const, content: 'How is the sea?' }] }
    world.upstream.respondWith(vendorAnswer(server, { text, annotations, calls }))
    const whole = await sdk.chat.completions.create(request)
    expect(whole.choices[0]!.message).toMatchObject({ content: text, annotations: inChat })
    world.upstream.respondWith(vendorAnswer(server, { text, annotations, calls }, true))
    const deltas: OpenAI.ChatCompletionChunk.Choice.Delta[] = []
    for await (const { choices } of await sdk.chat.completions.create({ ...request, stream: true })) {
      for (const { delta } of choices) deltas.push(delta)
    }
    expect(deltas.map(({ content }) => content ?? '').join('')).toBe(text)
    expect(deltas.flatMap(delta => (delta as { annotations?: object[] }).annotations ?? [])).toEqual(inChat)
  })

  test('reach a client of responses, whole and in a stream that is split at every byte', async () => {
    const sdk = await setUp()
    const request = {
      model: server,
      input: 'How is the sea?',
      tools: [{ type: 'function' as const, name: 'look', parameters: tools, strict: false }],
    }
    world.upstream.respondWith(vendorAnswer(server, { text, annotations, calls }))
    const whole = await sdk.responses.create(request)
    const part = { type: 'output_text', text, annotations, logprobs: [] }
    expect(whole.output).toMatchObject([
      { type: 'message', content: [part] },
      { type: 'function_call', name: 'look' },
    ])
    world.upstream.respondWith(vendorAnswer(server, { text, annotations, calls }, true))
    const added: OpenAI.Responses.ResponseOutputTextAnnotationAddedEvent[] = []
    const stream = sdk.responses
      .stream(request)
      .on('response.output_text.annotation.added', event => void added.push(event))
    const final = await stream.finalResponse()
    expect(final.output).toMatchObject([
      { type: 'message', content: [part] },
      { type: 'function_call', name: 'look' },
    ])
    const at = { item_id: final.output[0]!.id, output_index: 0, content_index: 0 }
    expect(added).toEqual(
      annotations.map((annotation, annotation_index) => ({
        ...{ type: 'response.output_text.annotation.added', ...at, annotation_index, annotation },
        sequence_number: expect.any(Number),
      })),
    )
  })
})
