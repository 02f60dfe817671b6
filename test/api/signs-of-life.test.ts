import { describe, expect, test } from 'vitest'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { type ClientName, clientWires } from '../harness/client-wires.ts'
import { readUntil } from '../harness/event-stream.ts'
import { type Behaviour, sse, status, streamEvents } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Proxies and clients cut silent connections, so each stream of a dialect shows signs of life that its clients ignore.

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'server: { ping_seconds: 1 }',
  offers: [testOffer(upstream.baseUrl)],
}))

interface Stream {
  readonly client: ClientName
  readonly sign: string
  /** The text of the stream as `ClientWire.readStream` reads it. */
  readonly read: (text: string) => string
  readonly query?: string
}

const same = (text: string) => text
const streams: Record<string, Stream> = {
  '/v1/responses': { client: 'responses', sign: ': ping\n\n', read: same },
  '/v1/messages': { client: 'messages', sign: 'event: ping\ndata: {"type":"ping"}\n\n', read: same },
  ':streamGenerateContent?alt=sse': { client: 'gemini', sign: ': ping\n\n', read: same },
  // White space between the elements of the array.
  ':streamGenerateContent': {
    client: 'gemini',
    sign: '\n',
    read: text => (JSON.parse(text) as object[]).map(element => `data: ${JSON.stringify(element)}\n\n`).join(''),
    query: '',
  },
}

describe.each(Object.entries(streams))('%s', (_, { client, sign, read, query }) => {
  const wire = clientWires[client]
  async function start({ key }: TestCustomer) {
    const asked = { model: 'test-model', key, text: 'Hello', maxTokens: 5_000, stream: true }
    const { path, headers, body } = wire.request(asked)
    const response = await fetch(gateway.url + (query === undefined ? path : path.replace(/\?.*/, query)), {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(response.status).toBe(200)
    return response.body!.getReader()
  }
  async function readRest(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
    let text = ''
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return text
      text += Buffer.from(value).toString()
    }
  }

  test('pings fill the wait before the first token and the gaps after it', async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    upstream.respondWith(
      sse(streamEvents({ text: 'one two' }), {
        beforeEvent: index => (index === 1 ? gates[0]!.promise : index === 2 ? gates[1]!.promise : undefined),
      }),
    )
    const reader = await start(await gateway.customer())
    const waited = await readUntil(reader, sign)
    expect(waited).not.toContain('one')
    gates[0]!.resolve()
    const first = await readUntil(reader, 'one')
    const gap = await readUntil(reader, sign)
    expect(gap).not.toContain('two')
    gates[1]!.resolve()
    const stream = waited + first + gap + (await readRest(reader))
    expect(wire.readStream(read(stream))).toEqual({ isComplete: true, errorCode: null })
  })

  test('a failure after the first ping is an error of the dialect, and free', async () => {
    const gate = Promise.withResolvers<void>()
    const late: Behaviour = async (request, response) => {
      await gate.promise
      await status(500)(request, response)
    }
    upstream.respondWith(late)
    const customer = await gateway.customer()
    const reader = await start(customer)
    const waited = await readUntil(reader, sign)
    gate.resolve()
    const stream = waited + (await readRest(reader))
    expect(wire.readStream(read(stream))).toEqual({ isComplete: false, errorCode: 'all_hosters_failed' })
    expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n)
  })
})
