import { describe, expect, it } from 'vitest'
import { fitOf } from '../../src/base/domain/chat-job.ts'
import type { StreamPart } from '../../src/base/domain/handoff.ts'
import { excessAt } from '../../src/base/domain/vendor-counts.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { hasMany } from '../../src/request/admit/eligible.ts'
import { parseCompletionsRequest } from '../../src/wire/dialects/completions/completions-request.ts'
import { withStops } from '../../src/wire/dialects/fit/stopped-answer.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { type VendorAnswer, vendorEvents } from '../harness/scripted-vendors.ts'
import { ask, envelope, expected, json, offerFor, streamParts, wholeAnswer } from './ask-server.ts'
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

it.each([
  ['tool_calls', [{ id: 'a', type: 'function', function: { name: 'look', arguments: '{}' } }]],
  ['function_call', { name: 'look', arguments: '{}' }],
])('before a call in %s leave it out', (field, called) => {
  const { reader } = ask(requests.chat({ stops }), offerFor('chat'))
  const message = { role: 'assistant', content: 'one <6> two', [field]: called }
  const answer = { choices: [{ index: 0, message, finish_reason: field }] }
  const [choice] = wholeAnswer('chat', withStops(reader, ['<6>']), JSON.stringify(answer)).choices
  expect(choice).toMatchObject({ message: { content: 'one ' }, finish_reason: 'stop' })
  expect(JSON.stringify(choice)).not.toContain('look')
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

describe('the tokens of an answer that the gateway ended', () => {
  /** Reads the events of a server up to where the gateway leaves it. */
  function readUntilLeft(server: 'chat' | 'messages', events: readonly string[]) {
    const { reader } = ask(requests.chat({}), offerFor(server))
    const stream = withStops(reader, ['\n']).stream(envelope, expected)
    const parts: StreamPart[] = []
    let read = 0
    for (const event of events) {
      if (stream.done) break
      read++
      const data = event.slice(event.indexOf('data: ') + 6).trim()
      parts.push(...stream.push({ event: /^event: (.*)$/m.exec(event)?.[1] ?? '', data }))
    }
    const early = parts.length
    if (!stream.done) parts.push(...stream.end())
    const last = parts.at(-1)
    return { parts, read, early, stream, usage: typeof last === 'string' ? undefined : last?.usage }
  }
  const thinking = { text: '', seal: 'RU5D' }
  const rest = 'and more of it'
  const answer = { text: `one line\n${rest}`, tokens: { input: 50, output: 500 } }
  const endsIn = (parts: readonly StreamPart[]) =>
    parts
      .filter(part => typeof part !== 'string')
      .flatMap(({ choices }) => choices.flatMap(each => each.finish_reason ?? []))

  it('include hidden thoughts, which are reported last', () => {
    const events = vendorEvents('messages', { ...answer, thinking })
    const { usage, parts } = readUntilLeft('messages', events)
    expect(usage).toMatchObject({ prompt_tokens: 50, completion_tokens: 500 - countTokens(rest) })
    expect([textOf(parts), endsIn(parts)]).toEqual(['one line', ['stop']])
    // Nobody leaves with all of an answer before it is counted.
    expect(endsIn(readUntilLeft('messages', events.slice(0, -1)).parts.slice(0, -2))).toEqual([])
  })

  it('include hidden thoughts, however much the model writes after them', () => {
    const text = `one line\n${'and more '.repeat(2_000)}`
    const { usage } = readUntilLeft(
      'messages',
      vendorEvents('messages', { ...answer, text, thinking, tokens: { input: 50, output: 9_000 } }),
    )
    expect(usage!.completion_tokens).toBeGreaterThan(7_000)
  })

  it('are counted by the gateway if the server breaks off after the sequence', () => {
    const events = vendorEvents('messages', { ...answer, thinking }).slice(0, -3)
    const { usage, parts, stream } = readUntilLeft('messages', events)
    expect(stream.complete).toBe(true)
    expect(usage).toMatchObject({ prompt_tokens: 50, completion_tokens: 0 })
    expect(endsIn(parts)).toEqual(['stop'])
  })

  it('are counted by the gateway at once if the prompt is reported and nothing was thought', () => {
    const events = vendorEvents('messages', answer)
    const { read, usage, stream } = readUntilLeft('messages', events)
    expect(read).toBeLessThan(events.length - 3)
    expect(usage).toMatchObject({ prompt_tokens: 50, completion_tokens: 0 })
    // Routing learns nothing from the first report.
    expect(stream.usage!.completion_tokens).toBe(0)
  })

  it('include the cached part of a prompt that is reported last', () => {
    const { usage } = readUntilLeft('chat', vendorEvents('chat', { text: answer.text }))
    expect(usage).toMatchObject({ prompt_tokens: 30, prompt_tokens_details: { cached_tokens: 20 } })
    expect(usage!.completion_tokens).toBe(7 - countTokens(rest))
  })

  it('are not waited for longer than a short text', () => {
    const long: VendorAnswer = { text: `one line\n${'and more '.repeat(2_000)}` }
    const events = vendorEvents('chat', long)
    const { read, usage, stream } = readUntilLeft('chat', events)
    expect(read).toBeLessThan(events.length / 2)
    expect(usage).toMatchObject({ prompt_tokens: 0, completion_tokens: 0 })
    // The time is that of a finished answer.
    expect(stream.awaitsUsage).toBe(true)
  })

  it('do not hide that calls came before the sequence', () => {
    const [start, ...others] = vendorEvents('chat', { calls: [{ id: 'c1', name: 'look', args: {} }] })
    const text = {
      ...JSON.parse(start!.slice(6)),
      choices: [{ index: 0, delta: { content: 'a\nb' }, finish_reason: null }],
    }
    const calls = others.slice(0, -3)
    const { parts } = readUntilLeft('chat', [
      start!,
      ...calls,
      `data: ${JSON.stringify(text)}\n\n`,
      ...others.slice(-3),
    ])
    expect(JSON.stringify(parts)).toContain('look')
    expect(endsIn(parts)).toEqual(['tool_calls'])
    const older = {
      ...text,
      choices: [{ index: 0, delta: { function_call: { name: 'look', arguments: '{}' } }, finish_reason: null }],
    }
    const events = [older, text].map(chunk => `data: ${JSON.stringify(chunk)}\n\n`)
    expect(endsIn(readUntilLeft('chat', events).parts)).toEqual(['function_call'])
  })
})
