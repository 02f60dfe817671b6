import { expect, test } from 'vitest'
import {
  emptyStep,
  messagesOf,
  type Step,
  stoppedNow,
  type Turn,
  titleOf,
} from '../../console/src/features/playground/talk.ts'

const said = (text: string): Step => ({ ...emptyStep, text })
const turn = (prompt: string, ...answers: readonly (readonly Step[])[]): Turn => ({
  prompt,
  images: [],
  answers: answers.map((steps, slot) => ({ slot, model: `model-${slot}`, steps })),
})
const user = (content: string) => ({ role: 'user', content })
const assistant = (content: string) => ({ role: 'assistant', content })

test('each model of a comparison has its own talk', () => {
  const turns = [turn('a', [said('a0')], [said('a1')])]
  expect(messagesOf(turns, 1)).toEqual([user('a'), assistant('a1')])
})

test('a model that joins later goes on from the first one', () => {
  const turns = [turn('a', [said('a0')]), turn('b', [said('b0')], [said('b1')])]
  expect(messagesOf(turns, 1)).toEqual([user('a'), assistant('a0'), user('b'), assistant('b1')])
})

test('a prompt that a model did not answer is left out of its talk', () => {
  const turns = [turn('a', [said('a0')], [emptyStep]), turn('b', [said('b0')], [said('b1')])]
  expect(messagesOf(turns, 1)).toEqual([user('b'), assistant('b1')])
})

test('calls come with their results', () => {
  const calls = [{ id: 'c1', name: 'weather', arguments: '{"city":"Bern"}' }]
  expect(messagesOf([turn('a', [{ ...emptyStep, calls, results: ['4'] }, said('cold')])], 0)).toEqual([
    user('a'),
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bern"}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: '4' },
    assistant('cold'),
  ])
})

test('images stand behind the prompt', () => {
  const url = 'data:image/png;base64,AA=='
  const turns = [{ ...turn('what?', [said('a cat')]), images: [url] }]
  expect(messagesOf(turns, 0)[0]).toEqual({
    role: 'user',
    content: [
      { type: 'text', text: 'what?' },
      { type: 'image_url', image_url: { url } },
    ],
  })
})

test('a talk has the title of its first prompt, shortened', () => {
  expect(titleOf([turn('Hello,\n world')])).toBe('Hello, world')
  expect(titleOf([turn('x'.repeat(80))])).toBe(`${'x'.repeat(59)}…`)
})

test('a talk that is left keeps what has arrived, and says that the answers were stopped', () => {
  const facts = { requestId: 'r1', provider: 'local', usage: null, firstMs: 2, elapsedMs: 7, isStopped: true }
  const done: Step = { ...said('whole'), end: { ...facts, isStopped: false } }
  const arriving: Step = { ...said('ha'), endIfLeft: facts, calls: [{ id: 'c1', name: 'weather', arguments: '{"ci' }] }
  const before = turn('a', [said('a0')])
  const [first, last] = stoppedNow([before, turn('b', [done], [arriving], [emptyStep])])
  expect(first).toBe(before)
  expect(last!.answers.map(({ steps }) => steps.at(-1))).toMatchObject([
    done,
    { text: 'ha', calls: [], end: facts },
    { text: '', end: { requestId: null, isStopped: true } },
  ])
})
