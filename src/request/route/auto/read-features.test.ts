import { describe, expect, test } from 'vitest'
import { autoFeatures } from '../../../base/domain/auto-table.ts'
import { type FeatureSource, readFeatures, sampleText } from './read-features.ts'

const jobOf = (content: unknown, more: Partial<FeatureSource> = {}): FeatureSource => ({
  forward: { messages: [{ role: 'user', content }] },
  promptTextBytes: 1_000,
  messageCount: 1,
  maxTokens: null,
  features: new Set(),
  ...more,
})

test.each([
  ['general', jobOf('Tell me about the history of bread in two sentences.')],
  ['general', jobOf('请用中文回答这个问题: 这个城市的历史 是什么?')],
  ['code', jobOf('Fix this bug:\n```ts\nfunction add(a, b) { return a - b; }\n```')],
  ['code', jobOf('Please refactor the class so that the compiler accepts it, and write a unit test.')],
  ['math', jobOf('Solve the equation x^2 + 3*x = 40 and prove the result.')],
  ['vision', jobOf('What does this code in the picture say?', { features: new Set(['images']) })],
  ['tools', jobOf('Book a table for tonight at eight, please.', { features: new Set(['tools']) })],
  ['long', jobOf('Summarize the report for the board of directors.', { promptTextBytes: 64_001 })],
])('%s', (taskClass, job) => {
  expect(readFeatures(job).taskClass).toBe(taskClass)
})

test('every feature is between 0 and 1, also for strange texts', () => {
  const texts = [
    '',
    '\0',
    '{}'.repeat(9_999),
    '=+'.repeat(9_999),
    '9 '.repeat(9_999),
    '\ud800 '.repeat(99),
    'why explain '.repeat(999),
  ]
  for (const text of texts) {
    const { values } = readFeatures(jobOf(text, { promptTextBytes: 2 ** 31, messageCount: 1e6, maxTokens: 2 ** 31 }))
    expect(values).toHaveLength(autoFeatures.length)
    for (const value of values) expect(value >= 0 && value <= 1, `${text.slice(0, 9)}: ${values}`).toBe(true)
  }
})

describe('the sample of the text', () => {
  const longText = (words: string) => `${words} `.repeat(2_000_000)

  test('is short for any length and number of messages, and has the beginning and the end', () => {
    const long = `begin here ${longText('filler')} end here`
    const messages = Array.from({ length: 5_000 }, (_, n) => ({ role: 'user', content: `${n} ${long}` }))
    const sample = sampleText({ forward: { messages } })
    expect(sample.length).toBeLessThan(8_000)
    expect(sample).toContain('begin here')
    expect(sample).toContain('end here')
    // The first and the last messages.
    for (const n of [0, 1, 4_998, 4_999]) expect(sample).toContain(`${n} begin`)
    expect(sample).not.toContain('2500 begin')
  })

  test('of a message with many parts and deep values ends', () => {
    const parts = Array.from({ length: 100_000 }, (_, n) => ({ type: 'text', text: `part number ${n} of many` }))
    let deep: unknown = 'the innermost text of all'
    for (let depth = 0; depth < 10_000; depth++) deep = { deep }
    const sample = sampleText({ forward: { messages: [{ content: parts }, { content: deep }] } })
    expect(sample).toContain('part number 99999 of many')
    expect(sample).not.toContain('innermost')
  })

  test.each([
    ['messages', { messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello to all of you' }] }] }],
    ['responses', { input: 'Hello to all of you' }],
    [
      'responses with items',
      { input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hello to all of you' }] }] },
    ],
    ['gemini', { contents: [{ parts: [{ text: 'Hello to all of you' }] }] }],
    ['completions', { prompt: 'Hello to all of you' }],
    ['several prompts', { prompt: ['Hello to all of you'] }],
  ])('is found in %s', (_name, body) => {
    expect(sampleText({ forward: body })).toBe('Hello to all of you')
    expect(sampleText({ forward: {}, source: { dialect: 'messages', body, conversation: () => null as never } })).toBe(
      'Hello to all of you',
    )
  })

  test('leaves out base64 and names', () => {
    const url = `data:image/png;base64,${'A'.repeat(100_000)}`
    const content = [{ type: 'image_url', image_url: { url } }]
    expect(sampleText({ forward: { messages: [{ role: 'user', content }] } })).toBe('')
  })
})
