import { describe, expect, it } from 'vitest'
import { fitOf } from '../../src/base/domain/chat-job.ts'
import type { StreamPart } from '../../src/base/domain/handoff.ts'
import { excessAt, hasMany } from '../../src/base/domain/vendor-counts.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { parseCompletionsRequest } from '../../src/wire/dialects/completions/completions-request.ts'
import { withStops } from '../../src/wire/dialects/fit/stopped-answer.ts'
import { ask, json, offerFor, streamParts, wholeAnswer } from './ask-server.ts'
import { clients, requests } from './wishes.ts'

// continuedev/continue issues 1572 and 7849: programs send more stop sequences than a vendor takes.

const stops = ['<1>', '<2>', '<3>', '<4>', '<5>', '<6>']
const servers = ['chat', 'messages', 'gemini', 'converse'] as const
const takes = { chat: 4, messages: 6, gemini: 5, converse: 6 }

const sentTo = (server: (typeof servers)[number], body: JsonObject): unknown =>
  body.stop ??
  body.stop_sequences ??
  (body.generationConfig as JsonObject | undefined)?.stopSequences ??
  (body.inferenceConfig as JsonObject).stopSequences ??
  server

describe.each(
  clients.filter(client => client !== 'responses').flatMap(client => servers.map(server => [client, server] as const)),
)('stop sequences of %s at a server of %s', (client, server) => {
  it('are sent as many as it takes', () => {
    const job = requests[client]({ stops })
    const offer = offerFor(server)
    const { body, changed } = ask(job, offer)
    expect(sentTo(server, body)).toEqual(stops.slice(0, takes[server]))
    expect(fitOf(job, offer)?.cutStops ?? []).toEqual(stops.slice(takes[server]))
    expect(changed).toEqual(takes[server] < stops.length ? ['stop'] : [])
    // Local servers take any number.
    expect(ask(requests[client]({ stops }), offerFor('chat', 'local')).body.stop).toEqual(stops)
  })

  it.each(['<6>', '\n'])('cut the answer at %j, whole and streamed', stop => {
    const job = requests[client]({ stops: [...stops, '\n'] })
    const offer = offerFor(server)
    const { reader } = ask(job, offer)
    const cut = fitOf(job, offer)?.cutStops ?? []
    if (!cut.includes(stop)) return
    const stopped = withStops(reader, cut)
    const answer = {
      thinking: { text: `Hm ${stop}`, seal: 'RU5D' },
      text: `one two ${stop} three`,
      calls: [{ id: 'c1', name: 'look', args: {} }],
    }
    const ending = { finish_reason: 'stop', stop_reason: stop }
    const [choice] = wholeAnswer(server, stopped, answer).choices
    expect(choice).toMatchObject({ message: { content: 'one two ' }, ...ending })
    expect(choice!.message.tool_calls).toBe(undefined)
    const parts = streamParts(server, stopped, answer)
    expect(textOf(parts)).toBe('one two ')
    expect(parts.filter(part => typeof part !== 'string' && part.choices[0]?.finish_reason != null)).toMatchObject([
      { choices: [ending] },
    ])
    expect(JSON.stringify(parts)).not.toContain('look')
  })

  it('leave an answer without them as it is', () => {
    const job = requests[client]({ stops })
    const offer = offerFor(server)
    const { reader } = ask(job, offer)
    const stopped = withStops(reader, stops)
    const answer = {
      thinking: { text: 'Hm', seal: 'RU5D' },
      text: 'one two <',
      calls: [{ id: 'c1', name: 'look', args: { a: '<6>' } }],
    }
    const whole = wholeAnswer(server, reader, answer)
    expect(wholeAnswer(server, stopped, answer)).toEqual(whole)
    const [own, cut] = [streamParts(server, reader, answer), streamParts(server, stopped, answer)]
    expect(textOf(cut)).toBe(textOf(own))
    expect(callsOf(cut)).toEqual(callsOf(own))
    expect(cut.at(-1)).toEqual(own.at(-1))
  })
})

function textOf(parts: readonly StreamPart[]): string {
  return parts
    .map(part => (typeof part === 'string' ? part : part.choices.map(({ delta }) => delta.content ?? '').join('')))
    .join('')
}

function callsOf(parts: readonly StreamPart[]): unknown[] {
  return parts.flatMap(part =>
    typeof part === 'string' ? [] : part.choices.flatMap(({ delta }) => delta.tool_calls ?? []),
  )
}

it('of a text completion are cut too', () => {
  const job = parseCompletionsRequest(json({ model: 'm', prompt: 'x', max_tokens: 9, stop: stops }))
  const offer = offerFor('chat')
  const { body, reader } = ask(job, offer)
  expect(body.stop).toEqual(stops.slice(0, 4))
  const answer = { choices: [{ index: 0, text: 'one <6> two', finish_reason: 'stop' }], usage: null }
  const { choices } = wholeAnswer('chat', withStops(reader, fitOf(job, offer)?.cutStops ?? []), JSON.stringify(answer))
  expect(choices[0]).toMatchObject({ message: { content: 'one ' }, stop_reason: '<6>' })
})

describe.each(['messages', 'converse'] as const)('stop sequences of white space at a server of %s', server => {
  const blanks = (count: number, length: number) =>
    Array.from({ length: count }, (_, at) =>
      [...at.toString(2).padStart(length, '0')].map(bit => (bit === '0' ? ' ' : '\t')).join(''),
    )

  it.each([
    ['256', blanks(256, 8), null],
    ['the same one a thousand times', Array.from({ length: 1_000 }, () => ' '), null],
    ['257', blanks(257, 9), '257 stop sequences that the server does not take (at most 256)'],
    [
      'a long one',
      ' '.repeat(16_385),
      '16385 characters of stop sequences that the server does not take (at most 16384)',
    ],
    ['some long ones', [' '.repeat(9_000), '\t'.repeat(9_000)], expect.stringContaining('18000 characters')],
    ['more than any server takes', blanks(8_448, 14), expect.stringContaining('8448 stop sequences')],
  ])('are looked for within a bound: %s', (_, stop, excess) => {
    const plain = requests.chat({})
    const job = { ...plain, forward: { ...plain.forward, stop } }
    expect(excessAt(offerFor(server), job)).toEqual(excess)
    if (excess !== null) expect(hasMany(job)).toBe(true)
  })
})

it('long stop sequences pass to a server that takes them', () => {
  const job = parseCompletionsRequest(json({ model: 'm', prompt: 'x', max_tokens: 9, stop: ['x'.repeat(20_000)] }))
  expect([hasMany(job), excessAt(offerFor('chat'), job)]).toEqual([true, null])
})
