import { describe, expect, it } from 'vitest'
import { ContentPattern } from './content-pattern.ts'

const event = (content: unknown, more: object = {}) =>
  JSON.stringify({ id: 'x', ...more, choices: [{ index: 0, delta: { content }, finish_reason: null }], usage: null })

describe('the pattern of an event', () => {
  const pattern = ContentPattern.of(event('Hi'), 'Hi')!

  it.each(['there', 'a longer piece of text', '"quoted", \\ and\nbroken', 'é 😀 \u0000', '","content":"', ''])(
    'reads the content of events that differ in nothing else: %j',
    content => {
      expect(pattern.read(event(content))).toBe(content)
    },
  )

  it('takes text as the upstream escapes it', () => {
    expect(pattern.read(event('X').replace('"X"', '"\\u00e9\\/\\ud83d"'))).toBe('é/\ud83d')
  })

  it.each([
    ['another field', event('a', { id: 'y' })],
    ['an end', event('a').replace('null}]', '"stop"}]')],
    ['content that is no text', event(7)],
    ['no content', event(null)],
    ['parts of text', event(['a'])],
    ['more fields beside the content', event('a').replace('"a"', '"a","refusal":"b"')],
    ['a string that does not end', event('a').replace('"a"', '"a\\"')],
    ['a raw line break in the string', event('a').replace('"a"', '"a\nb"')],
    ['less than both parts', event('').slice(0, 40)],
    ['nothing', ''],
  ])('leaves to others: %s', (_name, data) => {
    expect(pattern.read(data)).toBeNull()
  })
})

describe('no pattern', () => {
  it.each([
    ['the content is escaped otherwise than we would', event('é').replace('é', '\\u00e9'), 'é'],
    ['the content is in no delta', '{"choices":[{"message":{"content":"a"}}]}', 'a'],
    ['the key comes twice, and the last counts', '{"choices":[{"delta":{"content":"a","content":"a"}}]}', 'a'],
    [
      'there is another choice',
      '{"choices":[{"index":1,"delta":{"content":"a"}},{"index":0,"delta":{"content":"a"}}]}',
      'a',
    ],
    ['the content is of the second choice', '{"choices":[{"delta":{}},{"delta":{"content":"a"}}]}', 'a'],
    ['it is no JSON', '"content":"a"', 'a'],
  ])('where %s', (_name, data, text) => {
    expect(ContentPattern.of(data, text)).toBeNull()
  })

  it('takes the content for a name like it', () => {
    const data = '{"content":"a","choices":[{"delta":{"content":"a"}}]}'
    expect(ContentPattern.of(data, 'a')).toBeNull()
  })
})
