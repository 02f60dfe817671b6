import { expect, test, vi } from 'vitest'
import { Tokenizer } from '../tokens/tokenizer.ts'
import { countPrompt } from './count-prompt.ts'

const user = (content: string) => ({ role: 'user' as const, content })

test('counts role, word, message and start for one word', () => {
  expect(countPrompt({ messages: [user('hello')], tools: [] })).toBe(3 + 3 + 1 + 1)
})

test('adds names, tool calls and tools', () => {
  const plain = countPrompt({ messages: [user('hello')], tools: [] })
  expect(countPrompt({ messages: [{ ...user('hello'), name: 'ada' }], tools: [] })).toBeGreaterThan(plain + 1)
  expect(countPrompt({ messages: [{ ...user('hello'), tool_calls: [{ id: 'x' }] }], tools: [] })).toBeGreaterThan(plain)
  expect(countPrompt({ messages: [user('hello')], tools: [{ name: 'f' }] })).toBeGreaterThan(plain)
})

test('estimates a long prompt from samples, in one message or in many', () => {
  const counted = vi.spyOn(Tokenizer.prototype, 'count')
  const whole = countPrompt({ messages: [user('word '.repeat(100_000))], tools: [] })
  const parts = countPrompt({ messages: Array.from({ length: 100 }, () => user('word '.repeat(1_000))), tools: [] })
  expect(counted).toHaveBeenCalledTimes(2 * 32)
  for (const count of [whole, parts]) {
    expect(count).toBeGreaterThan(90_000)
    expect(count).toBeLessThan(110_000)
  }
})
