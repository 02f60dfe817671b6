import { describe, expect, it } from 'vitest'
import { type EventField, EventPattern } from './event-pattern.ts'

const fields: readonly EventField[] = [
  { key: '"delta":', kind: 'text', valueIn: event => event.delta },
  { key: '"sequence_number":', kind: 'count', valueIn: event => event.sequence_number },
  { key: '"padding":', kind: 'padding', valueIn: event => event.padding },
]
const event = (delta: unknown, more: object = {}) =>
  JSON.stringify({ type: 'delta', sequence_number: 7, item: 'a', delta, padding: 'xyz', ...more })

describe('the pattern of an event', () => {
  const pattern = EventPattern.of(event('Hi'), 'Hi', fields)!

  it.each(['there', 'a longer piece of text', '"quoted", \\ and\nbroken', 'é 😀 \u0000', '","delta":"', '', '文字'])(
    'reads the text of events that differ in the fields: %j',
    text => {
      expect(pattern.read(event(text, { sequence_number: 123_456, padding: '' }))).toBe(text)
    },
  )

  it('decodes the escapes of the upstream', () => {
    expect(pattern.read(event('X').replace('"X"', '"\\u00e9\\/\\ud83d"'))).toBe('é/\ud83d')
  })

  it('reads events with spaces and with the fields in any order', () => {
    const data = (text: string, count: number) => `{"delta": "${text}", "sequence_number": ${count}}`
    expect(EventPattern.of(data('a', 9), 'a', fields)?.read(data('b', 10))).toBe('b')
  })

  it.each([
    ['another value', event('a', { item: 'b' })],
    ['another field', event('a', { error: 'b' })],
    ['a text that is not a string', event(7)],
    ['no text', event(null)],
    ['a string that does not end', event('a').replace('"a"', '"a\\"')],
    ['a raw line break in the string', event('a').replace('"a"', '"a\nb"')],
    ['an escape that does not exist', event('a').replace('"a"', '"\\x"')],
    ['padding with escapes', event('a', { padding: '\n' })],
    ['a count of 0', event('a', { sequence_number: 0 })],
    ['a negative count', event('a', { sequence_number: -1 })],
    ['a fraction', event('a', { sequence_number: 1.5 })],
    ['a leading zero', event('a').replace(':7', ':07')],
    ['no digits', event('a').replace(':7', ':')],
    ['a long number', event('a').replace(':7', ':1234567890')],
    ['a cut event', event('a').slice(0, -1)],
    ['more after the event', `${event('a')} `],
    ['nothing', ''],
  ])('does not match %s', (_name, data) => {
    expect(pattern.read(data)).toBeNull()
  })
})

describe('there is no pattern', () => {
  it.each([
    ['the text is another one', event('b'), 'a'],
    ['the key comes twice, and the last counts', '{"delta":"a","delta":"a"}', 'a'],
    ['the text is in another field', '{"more":{"delta":"a"}}', 'a'],
    ['the count is in another field', '{"more":{"sequence_number":1},"delta":"a"}', 'a'],
    ['the event is not JSON', '"delta":"a"', 'a'],
    ['there is no text', '{"sequence_number":1}', ''],
  ])('if %s', (_name, data, text) => {
    expect(EventPattern.of(data, text, fields)).toBeNull()
  })
})
