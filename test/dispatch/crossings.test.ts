import { describe, expect, test } from 'vitest'
import type { AnswerEvent, UsageParts } from '../../src/base/domain/answer-event.ts'
import type { TokenUsage } from '../../src/base/domain/completion.ts'
import type { Conversation } from '../../src/base/domain/conversation.ts'
import { keyHeaderAt } from '../../src/base/domain/endpoint-defaults.ts'
import type { Answer } from '../../src/base/domain/handoff.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { decodeSse } from '../dialects/split-bytes.ts'
import { type ScriptedDialect, type VendorAnswer, vendorAnswer } from '../harness/scripted-vendors.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { crossingClients, readUpstreamBody } from './crossing-clients.ts'
import { offerAt, useDispatching } from './dispatching.ts'

const upstream = useUpstream('test')
const dispatching = useDispatching('test')

const dialects: readonly ScriptedDialect[] = ['chat', 'responses', 'messages', 'gemini']
const crossings = dialects.flatMap(client => dialects.map(server => ({ client, server })))
const seal = Buffer.from('a seal of the vendor').toString('base64')
const thinking = { text: 'Hm, the sea.', seal }
const calls: VendorAnswer['calls'] = [
  { id: 'call_1', name: 'look', args: { at: 'sea', deep: [1, { x: 'ü' }] } },
  { id: 'call_2', name: 'look', args: {} },
]
const text = 'Blue "and" wide: ü, \n漢 😀.'
const usage: UsageParts = {
  freshTokens: 10,
  cacheReadTokens: 20,
  cacheWriteTokens: 0,
  cacheWriteLongTokens: 0,
  outputTokens: 7,
  reasoningTokens: 3,
}

const answers: Readonly<Record<string, VendorAnswer>> = {
  text: { text },
  'reasoning and text': { thinking, text },
  calls: { calls },
  'reasoning, text and calls': { thinking, text, calls },
  'a limit that was reached': { text, limitReached: true },
}

function serverOf(dialect: ScriptedDialect): Offer {
  const offer = offerAt(upstream.baseUrl, { name: dialect })
  const quirks = { ...offer.endpoint.dialect, keyHeader: keyHeaderAt(upstream.baseUrl, dialect) }
  return { ...offer, endpoint: { ...offer.endpoint, dialect: quirks }, speaks: [dialect] }
}

describe.each(crossings)('a client of $client at a server of $server', ({ client: dialect, server }) => {
  const client = crossingClients[dialect]

  async function ask(stream: boolean, history?: readonly unknown[]): Promise<string> {
    const job = client.job(client.body(stream, history))
    const answered = await dispatching.sendJob(serverOf(server), job)
    if (answered.kind === 'whole') return client.whole(answered.completion, answered.completion.usage!, job)
    return streamText(answered, client.encoder(answered.envelope, job))
  }

  test.each(Object.entries(answers))(
    'gets %s, whole and in a stream that is split at every byte',
    async (_, answer) => {
      upstream.respondWith(vendorAnswer(server, answer), vendorAnswer(server, answer, true))
      const whole = said(client.readWhole(await ask(false)))
      const stream = await ask(true)
      const everyByte = Array.from({ length: Buffer.byteLength(stream) }, (_, at) => at)
      expect(said(client.readEvents(decodeSse(stream, everyByte)))).toEqual(whole)
      expect(whole).toEqual(expectedOf(answer))
    },
  )

  test('gets annotations, if both speak a dialect of OpenAI', async () => {
    const url = 'https://source.example.com/'
    const annotations = [{ type: 'url_citation' as const, start_index: 0, end_index: 4, title: 'Source', url }]
    const answer: VendorAnswer = { thinking, text, calls, annotations }
    upstream.respondWith(vendorAnswer(server, answer), vendorAnswer(server, answer, true))
    const both = [await ask(false), await ask(true)]
    const areOpenAi = [dialect, server].every(each => each === 'chat' || each === 'responses')
    expect(both.map(sent => sent.includes(url))).toEqual([areOpenAi, areOpenAi])
  })

  test('sends its answer back as the server made it, and no seal to another server', async () => {
    const answer: VendorAnswer = { thinking, text, calls }
    upstream.respondWith(vendorAnswer(server, answer))
    const first = JSON.parse(await ask(false)) as JsonObject
    const history = client.history(first, { call_1: 'a ship', call_2: 'a wave' })
    for (const next of dialects) {
      upstream.respondWith(vendorAnswer(next, { text: 'A ship.' }))
      await dispatching.sendJob(serverOf(next), client.job(client.body(false, history)))
      const { body, rawBody } = upstream.requests.at(-1)!
      expect([next, heldBy(readUpstreamBody[next](body))]).toEqual([
        next,
        [
          'user: Look!',
          `assistant: ${text}`,
          'call call_1 look {"at":"sea","deep":[1,{"x":"ü"}]}',
          'call call_2 look {}',
          'result of call_1: a ship',
          'result of call_2: a wave',
        ],
      ])
      expect(rawBody).not.toContain('sy1.')
      // What a client of chat sends passes through to servers of chat. Google's chat layer reads the seals of Gemini.
      if (next === 'chat' && (dialect === 'chat' || server === 'gemini')) continue
      expect([next, rawBody.includes(seal)]).toEqual([next, next === server && server !== 'chat'])
      // Servers of chat get the text of their reasoning back. Gemini needs only its seal.
      const hasText = next === server && server !== 'gemini'
      expect([next, rawBody.includes('Hm, the sea.')]).toEqual([next, hasText])
    }
  })
})

test('reasoning that another account of OpenAI sealed does not reach a server of responses', async () => {
  const client = crossingClients.responses
  const own = serverOf('responses')
  const other = { ...own, endpoint: { ...own.endpoint, apiKey: 'another-secret' } }
  const job = client.job(client.body(false))
  upstream.always(vendorAnswer('responses', { thinking, text, calls }))
  const answered = await dispatching.sendJob(own, job)
  if (answered.kind !== 'whole') throw new Error('The answer is not whole.')
  const { completion } = answered
  const first = JSON.parse(client.whole(completion, completion.usage!, job)) as JsonObject
  const history = client.history(first, { call_1: 'a ship', call_2: 'a wave' })
  const unnamed = [{ type: 'reasoning', id: 'rs_2', summary: [], encrypted_content: 'seal-from-elsewhere' }, ...history]
  for (const server of [own, other]) await dispatching.sendJob(server, client.job(client.body(false, unnamed)))
  const types = upstream.requests
    .slice(1)
    .map(({ body }) => (body.input as { type?: string }[]).map(({ type }) => type))
  const rest = ['message', 'function_call', 'function_call', 'function_call_output', 'function_call_output']
  expect(types).toEqual([
    [undefined, 'reasoning', ...rest],
    [undefined, ...rest],
  ])
  expect(upstream.requests[1]!.rawBody).toContain(`"encrypted_content":"${seal}"`)
})

/** The stream that a client gets. Usage comes last, as the relay writes it. */
async function streamText(
  answered: Answer,
  encoder: ReturnType<(typeof crossingClients)['chat']['encoder']>,
): Promise<string> {
  if (answered.kind !== 'stream') throw new Error('The answer is not a stream.')
  let events = ''
  let reported: TokenUsage | null = null
  await answered.chunks.read(parts => {
    for (const part of parts) {
      if (typeof part === 'string') events += encoder.text(part)
      else {
        reported = part.usage ?? reported
        if (part.choices.length > 0) events += encoder.chunk({ ...part, usage: null })
      }
    }
  })
  return events + encoder.end(reported!)
}

interface Said {
  readonly order: readonly string[]
  readonly reasoning: string
  readonly text: string
  readonly calls: readonly { readonly id: string; readonly name: string; readonly args: unknown }[]
  readonly finish: string
  readonly usage: UsageParts
}

function said(events: readonly AnswerEvent[]): Said {
  const order: string[] = []
  const joined = { reasoning: '', text: '' }
  const made: { id: string; name: string; json: string }[] = []
  let finish = 'none'
  let reported: UsageParts | undefined
  for (const event of events) {
    const { kind } = event
    if (kind === 'reasoning' || kind === 'text') joined[kind] += event.text
    else if (kind === 'tool_start') made.push({ id: event.id, name: event.name, json: '' })
    else if (kind === 'tool_arguments') made.at(-1)!.json += event.text
    else if (kind === 'finish') finish = event.reason
    else if (kind === 'usage') reported = event.usage
    const isPart = kind === 'reasoning' || kind === 'text' || kind === 'tool_start'
    if (isPart && (kind === 'tool_start' || order.at(-1) !== kind)) order.push(kind)
  }
  const read = made.map(({ id, name, json }) => ({ id, name, args: JSON.parse(json) as unknown }))
  return { order, ...joined, calls: read, finish, usage: reported! }
}

function expectedOf({ thinking: thought, text: spoken, calls: made = [], limitReached }: VendorAnswer): Said {
  return {
    order: [...(thought ? ['reasoning'] : []), ...(spoken ? ['text'] : []), ...made.map(() => 'tool_start')],
    reasoning: thought?.text ?? '',
    text: spoken ?? '',
    calls: made,
    finish: limitReached ? 'limit' : made.length > 0 ? 'tools' : 'end',
    usage,
  }
}

/** One line for each part of a conversation but its reasoning, in order. */
function heldBy({ turns }: Conversation): string[] {
  return turns.flatMap(({ role, parts }) =>
    parts.flatMap(part => {
      if (part.kind === 'text') return [`${role}: ${part.text}`]
      if (part.kind === 'tool_call') return [`call ${part.id} ${part.name} ${part.arguments}`]
      if (part.kind !== 'tool_result') return []
      return [
        `result of ${part.callId}: ${part.content.map(each => (each.kind === 'text' ? each.text : each.kind)).join('')}`,
      ]
    }),
  )
}
