import { describe, expect, it } from 'vitest'
import { fitOf } from '../../src/base/domain/chat-job.ts'
import { CheckTime } from '../../src/wire/dialects/fit/check-time.ts'
import { withSchemaCheck } from '../../src/wire/dialects/fit/checked-answer.ts'
import { violationOf } from '../../src/wire/dialects/fit/schema-violation.ts'
import { ask, offerFor, streamParts, wholeAnswer } from './ask-server.ts'
import { clients, requests, type servers, type Wish } from './wishes.ts'

// Where a server got another schema than the client sent, the answer is checked against the client's.

const output = {
  type: 'object',
  properties: {
    score: { type: 'integer', minimum: 1, not: { const: 7 } },
    tags: { type: 'array', maxItems: 2, items: { type: 'string', maxLength: 3 } },
  },
  required: ['score', 'tags'],
}
const optional = { type: 'object', properties: { at: { type: 'string', minLength: 2 } }, required: [] }

const plenty = { leftMs: () => 60_000, take: () => {} }

/** Asks with a wish, and reads an answer. Returns where it breaks the client's schema; null if it was not checked. */
function check(
  client: (typeof clients)[number],
  server: (typeof servers)[number],
  wish: Wish,
  answer: Parameters<typeof wholeAnswer>[2],
) {
  const job = requests[client](wish)
  const offer = offerFor(server)
  const { reader } = ask(job, offer)
  const fit = fitOf(job, offer)
  if (fit?.schemas === undefined) return null
  const checked = withSchemaCheck(reader, fit, fit.schemas, plenty, () => {})
  if (wish.stream) streamParts(server, checked, answer)
  else wholeAnswer(server, checked, answer)
  return fit.schemaViolation
}

const others = ['messages', 'gemini', 'converse'] as const
const crossings = clients.flatMap(client =>
  others.flatMap(server => [true, false].map(stream => [client, server, stream] as const)),
)

describe.each(crossings)('an answer for %s from %s (stream: %s)', (client, server, stream) => {
  it.each([
    ['{"score":1,"tags":["a"]}', undefined],
    ['{"score":0,"tags":["a"]}', '#/score minimum'],
    ['{"score":7,"tags":["a"]}', '#/score not'],
    ['{"score":1,"tags":["a","b","c"]}', '#/tags maxItems'],
    ['{"score":1,"tags":["abcd"]}', '#/tags/0 maxLength'],
    ['{"score":1}', '# required'],
    ['The score is 1.', 'no JSON'],
  ])('%s breaks its schema at %s', (text, violation) => {
    expect(check(client, server, { output, stream }, { text })).toBe(violation)
  })

  it('may be null where the schema is nullable', () => {
    const schema = {
      type: 'object',
      properties: { at: { type: 'string', nullable: true, minLength: 2 } },
      required: ['at'],
    }
    expect(check(client, server, { output: schema, stream }, { text: '{"at":null}' })).toBe(undefined)
    expect(check(client, server, { output: schema, stream }, { text: '{"at":"a"}' })).toBe('#/at minLength')
  })

  it('is not at fault if it was cut off, or calls a tool', () => {
    expect(check(client, server, { output, stream }, { text: '{"score":', limitReached: true })).toBe(undefined)
    const tools = [{ name: 'look', schema: { type: 'object', properties: {} } }]
    const calls = [{ id: 'call_1', name: 'look', args: {} }]
    expect(check(client, server, { output, tools, stream }, { calls })).toBe(undefined)
  })
})

it.each([true, false])('arguments of strict tools are checked (stream: %s)', stream => {
  const tools = [{ name: 'look', schema: optional, strict: true }]
  const calls = (at: string) => ({ calls: [{ id: 'call_1', name: 'look', args: { at } }] })
  for (const client of ['chat', 'responses', 'messages'] as const)
    for (const server of ['chat', 'responses', 'messages', 'converse'] as const) {
      expect(check(client, server, { tools, stream }, calls('a'))).toBe('look #/at minLength')
      expect(check(client, server, { tools, stream }, calls('ab'))).toBe(undefined)
    }
})

it.each(['chat', 'responses'] as const)('a schema that %s takes as it is costs nothing', server => {
  const strict = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }
  for (const client of clients) expect(check(client, server, { output: strict }, { text: '{}' })).toBe(null)
})

it('Gemini 2 gets the schema in words beside functions, and its answer is checked', () => {
  const job = requests.chat({ output, tools: [{ name: 'look', schema: { type: 'object' } }] })
  const offer = offerFor('gemini', 'cloud', 'gemini-2.5-pro')
  ask(job, offer)
  expect(fitOf(job, offer)?.schemas?.output).toEqual(output)
})

describe('a schema of a stranger', () => {
  it.each<[string, object, unknown]>([
    ['with a pattern that backtracks', { type: 'string', pattern: '^(a+)+$' }, `${'a'.repeat(40)}b`],
    ['with references that multiply', { $defs: multiplied(40), $ref: '#/$defs/a0' }, 'x'],
    ['with a reference to itself', { $defs: { a: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' }, 'x'],
    ['with a reference to elsewhere', { $ref: 'https://example.com/schema' }, 'x'],
    ['that is none', { type: 'object', required: 7, properties: [] }, {}],
  ])('%s leaves the answer unchecked', (_, schema, value) => {
    expect(violationOf(schema, JSON.stringify(value), 100)).toBe(undefined)
  })

  it('cannot put more than a few plain characters into a header', () => {
    const name = `ü\r\nx: y${'z'.repeat(500)}`
    const found = violationOf({ properties: { [name]: { type: 'string' } } }, JSON.stringify({ [name]: 1 }), 60_000)
    expect(found).toMatch(/^[\w#/ .~-]{1,200}$/)
  })
})

describe('the checks of one answer', () => {
  /** Counts the checks of an answer with 128 calls of a strict tool. */
  function countChecks(time: ReturnType<CheckTime['of']>, pattern: string, at: string): number {
    const schema = { type: 'object', properties: { at: { type: 'string', pattern } } }
    const job = requests.chat({ tools: [{ name: 'look', schema, strict: true }] })
    const offer = offerFor('messages')
    const { reader } = ask(job, offer)
    let checks = 0
    const tools = new (class extends Map<string, unknown> {
      override get(name: string): unknown {
        checks++
        return super.get(name)
      }
    })([['look', schema]])
    const checked = withSchemaCheck(reader, fitOf(job, offer)!, { output: undefined, tools }, time, () => {})
    const calls = Array.from({ length: 128 }, (_, index) => ({ id: `call_${index}`, name: 'look', args: { at } }))
    wholeAnswer('messages', checked, { calls })
    return checks
  }

  it('are all made while there is time', () => {
    expect(countChecks(plenty, '^a+$', 'aaa')).toBe(128)
  })

  it('end with the first that takes all the time', () => {
    const time = new CheckTime({ monotonicMs: () => 0 })
    // V8 may end a script a millisecond early, and what is left goes to the next one.
    expect(countChecks(time.of('ann'), '^(a+)+$', `${'a'.repeat(40)}!`)).toBeLessThan(5)
    expect(countChecks(time.of('ann'), '^a+$', 'aaa')).toBe(0)
  })
})

it('the checks of a customer take a twentieth of the time', () => {
  let nowMs = 5_000
  const time = new CheckTime({ monotonicMs: () => nowMs })
  const ann = time.of('ann')
  expect(ann.leftMs()).toBe(100)
  ann.take(60)
  expect(ann.leftMs()).toBe(40)
  expect(time.of('ann').leftMs()).toBe(40)
  expect(time.of('bob').leftMs()).toBe(100)
  nowMs += 400
  expect(ann.leftMs()).toBe(60)
  nowMs += 60_000
  expect(ann.leftMs()).toBe(100)
  // A stall of the machine costs no more than the longest check.
  ann.take(10_000)
  expect(ann.leftMs()).toBe(0)
})

/** Each definition refers to the next one twice. */
function multiplied(depth: number): object {
  const names = Array.from({ length: depth }, (_, at) => `a${at}`)
  const twice = (at: number) => ({ allOf: [{ $ref: `#/$defs/a${at + 1}` }, { $ref: `#/$defs/a${at + 1}` }] })
  return { ...Object.fromEntries(names.map((name, at) => [name, twice(at)])), [`a${depth}`]: { type: 'string' } }
}
