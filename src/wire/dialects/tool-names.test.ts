import { expect, it, test, vi } from 'vitest'
import type { Part, Turn } from '../../base/domain/conversation.ts'
import { flatToolName, pairToolCalls } from './tool-names.ts'

it('a name that is too long stays unique and within 64 characters', () => {
  const long = 'a'.repeat(80)
  const names = [`${long}b`, `${long}c`].map(name => flatToolName({ name, namespace: 'mcp__server' }))
  expect(new Set(names).size).toBe(2)
  for (const name of names) expect(name).toMatch(/^[\w-]{64}$/)
})

const text = (content: string): Part => ({ kind: 'text', text: content })
const call = (id: string): Part => ({ kind: 'tool_call', id, name: 'f', toolKind: 'function', arguments: '{}' })
const result = (callId: string): Part => ({
  kind: 'tool_result',
  callId,
  toolKind: 'function',
  content: [{ kind: 'text', text: `of ${callId}` }],
  isError: false,
})
const stub = (callId: string) => expect.objectContaining({ kind: 'tool_result', callId, isError: true })
const user = (...parts: Part[]): Turn => ({ role: 'user', parts })
const assistant = (...parts: Part[]): Turn => ({ role: 'assistant', parts })
const system = (...parts: Part[]): Turn => ({ role: 'system', parts })

test.each<[name: string, turns: Turn[], paired: unknown[]]>([
  [
    'complete calls stay as they are',
    [user(text('a')), assistant(text('b'), call('1'), call('2')), user(result('1'), result('2')), assistant(text('c'))],
    [user(text('a')), assistant(text('b'), call('1'), call('2')), user(result('1'), result('2')), assistant(text('c'))],
  ],
  [
    'results come before other parts and instructions',
    [assistant(call('1'), call('2')), system(text('s')), user(text('a'), result('2')), user(result('1'), text('b'))],
    [
      assistant(call('1'), call('2')),
      user(result('2'), result('1')),
      system(text('s')),
      user(text('a')),
      user(text('b')),
    ],
  ],
  [
    'a call without a result gets a stub',
    [assistant(call('1'), call('2')), user(result('2'), text('stop'))],
    [assistant(call('1'), call('2')), user(result('2'), stub('1')), user(text('stop'))],
  ],
  ['a last call gets a stub', [assistant(call('1'))], [assistant(call('1')), user(stub('1'))]],
  [
    'a result without a call becomes text',
    [user(result('0'), text('a'))],
    [user(text('The result of the tool call 0, which was removed:'), text('of 0'), text('a'))],
  ],
  [
    'a result that comes a turn late becomes text',
    [assistant(call('1')), user(text('a')), assistant(text('b')), user(result('1'))],
    [
      assistant(call('1')),
      user(stub('1')),
      user(text('a')),
      assistant(text('b')),
      user(text('The result of the tool call 1, which was removed:'), text('of 1')),
    ],
  ],
  [
    'an id that is used again gets another name, with its result',
    [assistant(call('1')), user(result('1')), assistant(call('1')), user(result('1'))],
    [
      assistant(call('1')),
      user(result('1')),
      assistant({ ...call('1'), id: '1_2' } as Part),
      user({ ...result('1'), callId: '1_2' } as Part),
    ],
  ],
  [
    'neighbouring turns of the assistant are one',
    [assistant(text('a')), assistant(call('1')), user(result('1'))],
    [assistant(text('a'), call('1')), user(result('1'))],
  ],
])('%s', (_, turns, paired) => expect(pairToolCalls(turns)).toEqual(paired))

test.each([
  ['one id', Array.from({ length: 500 }, () => 'a')],
  [
    'one id after its copies',
    [...Array.from({ length: 500 }, (_, at) => `a_${at}`), ...Array.from({ length: 500 }, () => 'a')],
  ],
])('a thousand calls with %s get ids in few steps', (_name, ids) => {
  const lookUps = vi.spyOn(Set.prototype, 'has')
  const [paired] = pairToolCalls([assistant(...ids.map(call))])
  const count = lookUps.mock.calls.length
  lookUps.mockRestore()
  expect(new Set(paired!.parts.map(part => (part as { id: string }).id)).size).toBe(ids.length)
  expect(count).toBeLessThan(4 * ids.length)
})
