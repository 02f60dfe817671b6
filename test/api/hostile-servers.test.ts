import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import { mutated } from '../dialects/mutated-json.ts'
import { type TestApp, testOffer } from '../harness/app.ts'
import { type ClientName, clientWires } from '../harness/client-wires.ts'
import { bedrockBody, bedrockEvents, eventFrame } from '../harness/scripted-bedrock.ts'
import { rawResponse } from '../harness/scripted-upstream.ts'
import { type NativeDialect, vendorBody, vendorEvents } from '../harness/scripted-vendors.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Servers of every dialect that send almost what their vendor sends: events that are repeated, missing, in another order or with other values.

const dialects: readonly Exclude<Dialect, 'chat'>[] = ['responses', 'messages', 'gemini', 'converse']
const clients: readonly ClientName[] = ['chat', 'responses', 'messages', 'gemini']
const MAX_TOKENS = 500

const upstream = useUpstream()
let log = ''
const gateway: TestApp = useTestApp(() => ({
  offers: dialects.map(dialect => {
    const offer = testOffer(upstream.baseUrl, { modelId: dialect })
    return { ...offer, endpoint: { ...offer.endpoint, endpointId: dialect, apiKey: 'key' }, speaks: [dialect] }
  }),
  onLog: line => {
    log += line
  },
}))
const customer = useCustomer(gateway, {
  creditNanos: 1_000_000_000_000n,
  limits: { requestsPerMinute: 100_000, requestsPerDay: 100_000, dailySpendCapNanos: 1_000_000_000_000n },
})

const answer = {
  thinking: { text: 'Hm, so. ', seal: Buffer.from('a seal').toString('base64') },
  text: 'Blue and wide.',
  calls: [
    { id: 'call_1', name: 'look', args: { at: 'sea' } },
    { id: 'call_2', name: 'look', args: { at: 'land', n: [1, { b: null }] } },
  ],
}

const eventsOf = (dialect: NativeDialect) =>
  vendorEvents(dialect, answer).map(event => JSON.parse(event.slice(event.indexOf('data: ') + 'data: '.length)))

interface Attack {
  readonly dialect: Dialect
  readonly client: ClientName
  readonly stream: boolean
  readonly contentType: string
  readonly bytes: Buffer
}

type Asked = Pick<Attack, 'dialect' | 'client' | 'stream'>

function validAnswer({ dialect, stream }: Asked): object {
  if (dialect === 'converse') return stream ? bedrockEvents(answer) : bedrockBody(answer)
  return stream ? eventsOf(dialect as NativeDialect) : vendorBody(dialect as NativeDialect, answer)
}

/** An attack with this answer: the events of a stream, or a body. */
function attackWith(asked: Asked, value: unknown): Attack {
  const { dialect, stream } = asked
  const events = stream && Array.isArray(value) ? value : [value]
  if (stream && dialect === 'converse') {
    const frames = events.flatMap(event =>
      Object.entries(event ?? {}).map(([type, payload]) => eventFrame(type, payload as object)),
    )
    return { ...asked, contentType: 'application/vnd.amazon.eventstream', bytes: Buffer.concat(frames) }
  }
  const texts = events.map(event => (stream ? `data: ${JSON.stringify(event)}\n\n` : JSON.stringify(event)))
  return {
    ...asked,
    contentType: stream ? 'text/event-stream' : 'application/json',
    bytes: Buffer.from(texts.join('')),
  }
}

const attack: fc.Arbitrary<Attack> = fc
  .record({ dialect: fc.constantFrom(...dialects), client: fc.constantFrom(...clients), stream: fc.boolean() })
  .chain(asked => mutated(validAnswer(asked)).map(value => attackWith(asked, value)))

/** Arguments before the call to which they belong. */
function argumentsFirst(): Attack {
  const events = eventsOf('responses')
  const first = events.findIndex(({ type }) => type === 'response.function_call_arguments.delta')
  const asked = { dialect: 'responses', client: 'chat', stream: true } as const
  return attackWith(asked, [...events.slice(0, first - 1), events[first], ...events.slice(first - 1)])
}

test('whatever a server sends, its client can read the answer or the error', async () => {
  const endings = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(attack, async ({ dialect, client, stream, contentType, bytes }) => {
      upstream.always(rawResponse(bytes, { framing: 'chunked', headers: { 'content-type': contentType } }))
      const wire = clientWires[client]
      const asked = { model: dialect, key: customer.key, text: 'Hello', maxTokens: MAX_TOKENS, stream }
      const { path, headers, body } = wire.request(asked)
      const response = await fetch(`${gateway.url}${path}`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const text = await response.text()
      let ending = 'whole'
      if (response.status !== 200) ending = wire.errorCode(JSON.parse(text)) ?? `no error of ${client}: ${text}`
      else if (stream) {
        const { isComplete, errorCode } = wire.readStream(text)
        ending = errorCode ?? (isComplete ? 'complete' : `silent: ${text}`)
      } else JSON.parse(text)
      expect(['whole', 'complete', 'all_hosters_failed', 'upstream_rejected', 'stream_interrupted']).toContain(ending)
      endings.set(ending, (endings.get(ending) ?? 0) + 1)
    }),
    { numRuns: 200, examples: [[argumentsFirst()]] },
  )
  expect([...endings.keys()]).toEqual(expect.arrayContaining(['whole', 'complete', 'stream_interrupted']))
  expect(log).not.toContain('internal_error')
  for (const { outcome, cost_nanos: cost, hold_nanos: hold, output_tokens: output } of await gateway.usage(customer)) {
    expect(outcome === 'served' || cost === 0n, outcome).toBe(true)
    expect(cost <= hold && output <= MAX_TOKENS).toBe(true)
  }
})
