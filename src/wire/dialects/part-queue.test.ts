import { expect, it, vi } from 'vitest'
import type { AnswerEvent } from '../../base/domain/answer-event.ts'
import { HeldBack } from './held-back.ts'
import { PartQueue } from './part-queue.ts'

const start = (id: string) => ({ kind: 'tool_start', id, name: 'f', toolKind: 'function' }) as const
const text = (words: string) => ({ kind: 'text', text: words }) as const

it('passes pieces of arguments on without reading the earlier ones again', () => {
  const queue = new PartQueue()
  queue.startCall(0, start('a'))
  const slices = vi.spyOn(String.prototype, 'slice')
  const events: AnswerEvent[] = []
  for (let at = 0; at < 200; at++) events.push(...queue.addArguments(0, 'piece'))
  const units = slices.mock.contexts.reduce((sum: number, context) => sum + String(context).length, 0)
  slices.mockRestore()
  expect(events).toEqual(Array.from({ length: 200 }, () => ({ kind: 'tool_arguments', text: 'piece' })))
  expect(units).toBeLessThan(2 * 200 * 'piece'.length)
})

it('joins the texts that wait for a call', () => {
  const queue = new PartQueue()
  queue.startCall(0, start('a'))
  for (let at = 0; at < 3; at++) expect(queue.say(text(`${at}`))).toEqual([])
  expect(queue.say({ kind: 'reasoning', text: 'hm' })).toEqual([])
  expect(queue.flush()).toEqual([
    { kind: 'tool_arguments', text: '{}' },
    { kind: 'tool_end' },
    text('012'),
    { kind: 'reasoning', text: 'hm' },
  ])
})

it('completes arguments of nothing but spaces', () => {
  const queue = new PartQueue()
  const events = [...queue.startCall(0, start('a')), ...queue.addArguments(0, ' '), ...queue.endCall(0)]
  const sent = events.flatMap(event => (event.kind === 'tool_arguments' ? [event.text] : []))
  expect(JSON.parse(sent.join(''))).toEqual({})
})

it.each([
  ['text', 12, () => text('x'.repeat(100_000))],
  [
    'kinds of text by turns',
    6_000,
    (at: number) => (at % 2 === 0 ? text('a') : { kind: 'reasoning' as const, text: 'b' }),
  ],
])('refuses more %s behind an open call than an answer needs', (_name, count, part) => {
  const queue = new PartQueue(new HeldBack())
  queue.startCall(0, start('a'))
  const hold = () => {
    for (let at = 0; at < count; at++) queue.say(part(at))
  }
  expect(hold).toThrow(expect.objectContaining({ outcome: 'malformed' }))
})

it('refuses more arguments of a call that waits than an answer needs, but not of the first call', () => {
  const queue = new PartQueue(new HeldBack())
  queue.startCall(0, start('a'))
  queue.startCall(1, start('b'))
  const add = (key: number) => () => {
    for (let at = 0; at < 12; at++) queue.addArguments(key, 'x'.repeat(100_000))
  }
  expect(add(0)).not.toThrow()
  expect(add(1)).toThrow(expect.objectContaining({ outcome: 'malformed' }))
})
