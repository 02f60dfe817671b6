import { describe, expect, it } from 'vitest'
import { ContentPattern } from './content-pattern.ts'

const event = (content: unknown, more: object = {}) =>
  JSON.stringify({ id: 'x', ...more, choices: [{ index: 0, delta: { content }, finish_reason: null }], usage: null })

describe('the pattern of an event', () => {
  const pattern = ContentPattern.of(event('Hi'), 'Hi')!

  it.each(['there', 'a longer piece of text', '"quoted", \\ and\nbroken', 'é 😀 \u0000', '","content":"', ''])(
    'reads the content of events that differ only in it: %j',
    content => {
      expect(pattern.read(event(content))).toBe(content)
    },
  )

  it('decodes the escapes of the upstream', () => {
    expect(pattern.read(event('X').replace('"X"', '"\\u00e9\\/\\ud83d"'))).toBe('é/\ud83d')
  })

  it.each([
    ['another field', event('a', { id: 'y' })],
    ['an end', event('a').replace('null}]', '"stop"}]')],
    ['content that is not a string', event(7)],
    ['no content', event(null)],
    ['parts of text', event(['a'])],
    ['more fields next to the content', event('a').replace('"a"', '"a","refusal":"b"')],
    ['a string that does not end', event('a').replace('"a"', '"a\\"')],
    ['a raw line break in the string', event('a').replace('"a"', '"a\nb"')],
    ['data shorter than both parts', event('').slice(0, 40)],
    ['nothing', ''],
  ])('does not match %s', (_name, data) => {
    expect(pattern.read(data)).toBeNull()
  })
})

describe('there is no pattern', () => {
  it.each([
    ['the content is escaped differently from JSON.stringify', event('é').replace('é', '\\u00e9'), 'é'],
    ['the content is not in a delta', '{"choices":[{"message":{"content":"a"}}]}', 'a'],
    ['the key comes twice, and the last counts', '{"choices":[{"delta":{"content":"a","content":"a"}}]}', 'a'],
    [
      'there is another choice',
      '{"choices":[{"index":1,"delta":{"content":"a"}},{"index":0,"delta":{"content":"a"}}]}',
      'a',
    ],
    ['the content is of the second choice', '{"choices":[{"delta":{}},{"delta":{"content":"a"}}]}', 'a'],
    ['the event is not JSON', '"content":"a"', 'a'],
  ])('if %s', (_name, data, text) => {
    expect(ContentPattern.of(data, text)).toBeNull()
  })

  it('if another field with that name comes first', () => {
    const data = '{"content":"a","choices":[{"delta":{"content":"a"}}]}'
    expect(ContentPattern.of(data, 'a')).toBeNull()
  })
})
