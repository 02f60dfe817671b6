import { expect, test } from 'vitest'
import { chatToConversation } from '../../src/dialects/chat/chat-to-conversation.ts'
import { crossingLosses } from '../../src/dialects/translation/crossing-losses.ts'
import { type Conversation, type Dialect, dialects } from '../../src/domain/conversation.ts'
import { dialectAt } from '../../src/domain/upstream-dialect.ts'
import { jobOf } from '../dispatch/dispatching.ts'
import { readPage, tableRows } from './page.ts'

const hello = { role: 'user', content: 'Hello' }
const plain = chatToConversation({ messages: [hello] }, null)
const ofChat = (body: object): Conversation => chatToConversation({ messages: [hello], ...body }, null)
const audio = [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }]
const tool = { kind: 'function', name: 'look', description: null, parameters: null, strict: null } as const

/** A conversation that uses one field and no other. */
const conversations: Readonly<Record<string, Conversation>> = {
  audio: ofChat({ messages: audio }),
  stop: ofChat({ stop: ['x'] }),
  top_k: ofChat({ top_k: 5 }),
  presence_penalty: ofChat({ presence_penalty: 1 }),
  frequency_penalty: ofChat({ frequency_penalty: 1 }),
  seed: ofChat({ seed: 5 }),
  verbosity: ofChat({ verbosity: 'low' }),
  prompt_cache_key: ofChat({ prompt_cache_key: 'k' }),
  user: ofChat({ user: 'u' }),
  parallel_tool_calls: ofChat({ parallel_tool_calls: false }),
  strict: { ...plain, tools: [{ ...tool, strict: true }] },
  response_format: ofChat({ response_format: { type: 'json_object' } }),
  grammar: { ...plain, tools: [{ ...tool, kind: 'custom', grammar: { syntax: 'lark', definition: 'start: "a"' } }] },
  cache_control: { ...plain, tools: [{ ...tool, cache: 'short' }] },
}

function crossingOf(field: string, dialect: Dialect): string {
  const { missing, dropped } = crossingLosses(conversations[field]!, dialect)
  expect([...missing, ...dropped].every(name => name === field)).toBe(true)
  return missing.length > 0 ? 'excluded' : dropped.length > 0 ? 'dropped' : 'yes'
}

test('docs/dialects.md has what crosses to each dialect', () => {
  const documented = tableRows(readPage('docs/dialects.md'), 'field')
  const coded = Object.keys(conversations).map(field => [field, ...dialects.map(dialect => crossingOf(field, dialect))])
  expect(documented).toEqual(coded)
})

test('routing excludes what docs/dialects.md says', () => {
  const bodies: Readonly<Record<string, object>> = { audio: { messages: audio }, stop: { stop: ['x'] } }
  for (const [field, ...cells] of tableRows(readPage('docs/dialects.md'), 'field')) {
    const excluded = dialects.filter((_, index) => cells[index] === 'excluded')
    const body = bodies[field!]
    if (body === undefined) expect([field, excluded]).toEqual([field, []])
    else expect([field, dialects.filter(each => dialectAt([each], jobOf(body)) === null)]).toEqual([field, excluded])
  }
})
