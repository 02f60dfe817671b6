import { expect, test } from 'vitest'
import { createAffinity } from '../../src/request/route/affinity.ts'
import { jobOf } from '../supply/random-market.ts'

const conversation = (...contents: unknown[]) =>
  jobOf({ forward: { messages: contents.map(content => ({ role: 'user', content })) } })

test('later turns of a conversation find its last offer for ten minutes', () => {
  let nowMs = 0
  const affinity = createAffinity({ clock: { epochMs: () => nowMs, monotonicMs: () => nowMs } })
  affinity.remember('customer', conversation('be brief', 'hello'), 'x/m')
  const later = conversation('be brief', 'hello', 'hi', 'and now?')
  expect(affinity.find('customer', later)).toBe('x/m')
  expect(affinity.find('another', later)).toBe(null)
  expect(affinity.find('customer', conversation('be brief', 'goodbye'))).toBe(null)
  expect(affinity.find('customer', { ...later, model: 'another' })).toBe(null)
  nowMs = 599_999
  expect(affinity.find('customer', later)).toBe('x/m')
  nowMs = 600_000
  expect(affinity.find('customer', later)).toBe(null)
})

test('content in parts is compared by its text', () => {
  const affinity = createAffinity({ clock: { epochMs: () => 0, monotonicMs: () => 0 } })
  const image = { type: 'image_url', image_url: { url: 'data:' } }
  affinity.remember('customer', conversation([image, { type: 'text', text: 'what is this?' }]), 'x/m')
  expect(affinity.find('customer', conversation([{ type: 'text', text: 'what is this?' }]))).toBe('x/m')
  expect(affinity.find('customer', conversation([{ type: 'text', text: 'and that?' }]))).toBe(null)
  // A conversation of an image alone and an answer with only tool calls has no text.
  expect(affinity.find('customer', conversation([image], null))).toBe(null)
})

test('a session key identifies a conversation, whatever its messages are', () => {
  const affinity = createAffinity({ clock: { epochMs: () => 0, monotonicMs: () => 0 } })
  const session = { ...conversation('hello'), sessionKey: 's' }
  affinity.remember('customer', session, 'x/m')
  expect(affinity.find('customer', { ...conversation('goodbye'), sessionKey: 's' })).toBe('x/m')
  expect(affinity.find('customer', { ...session, sessionKey: 'other' })).toBe(null)
  expect(affinity.find('customer', { ...session, sessionKey: null })).toBe(null)
  expect(affinity.find('customer', { ...session, model: 'another' })).toBe(null)
  expect(affinity.find('another', session)).toBe(null)
})

test('memory is bounded', () => {
  const affinity = createAffinity({ clock: { epochMs: () => 0, monotonicMs: () => 0 }, entriesMax: 2 })
  for (const text of ['one', 'two', 'three']) affinity.remember('customer', conversation(text), text)
  expect(affinity.find('customer', conversation('one'))).toBe(null)
  expect(affinity.find('customer', conversation('two'))).toBe('two')
  // A conversation that continues is newer than one that began after it.
  affinity.remember('customer', conversation('two'), 'two')
  affinity.remember('customer', conversation('four'), 'four')
  expect(affinity.find('customer', conversation('two'))).toBe('two')
  expect(affinity.find('customer', conversation('three'))).toBe(null)
})

test('texts to complete, to embed and to rank are no conversations', () => {
  const affinity = createAffinity({ clock: { epochMs: () => 0, monotonicMs: () => 0 } })
  for (const task of ['completions', 'embeddings', 'rerank'] as const) {
    const job = jobOf({ task, sessionKey: 's', forward: {} })
    affinity.remember('customer', job, 'x/m')
    expect([affinity.find('customer', job), affinity.findModel('customer', job)]).toEqual([null, null])
  }
})
