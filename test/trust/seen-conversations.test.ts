import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createConversationNames, createSeenConversations } from '../../src/market/trust/audits/seen-conversations.ts'
import { pruneAudits } from '../../src/market/trust/evidence/audit-store.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { NOW_MS } from './trust-world.ts'

// A hoster recognises a conversation that it gets a second time, whichever node sent it first.

const database = useTestDatabase()

function node() {
  const timers: (() => void)[] = []
  const after = (_: number, work: () => void) => {
    timers.push(work)
    return () => timers.splice(timers.indexOf(work), 1)
  }
  const seen = createSeenConversations({
    ...{ pool: database.pool, scheduler: { epochMs: () => NOW_MS, after }, log: { warn() {} } },
  })
  return { ...seen, timers }
}

const [first, second, third] = Array.from({ length: 3 }, () => randomUUID()) as [string, string, string]

test('what one node sent to a hoster is known to the others', async () => {
  const [here, there] = [node(), node()]
  here.note('a', first)
  here.note('a', first)
  here.note('b', second)
  expect(here.timers).toHaveLength(1)
  expect(await here.seenBy([first], ['a', 'b'])).toEqual(new Set(['a']))
  expect(here.timers).toEqual([])
  expect(await there.seenBy([first, second], ['a', 'b', 'c'])).toEqual(new Set(['a', 'b']))
  here.note('c', third)
  await here.stop()
  expect(await there.seenBy([third], ['c'])).toEqual(new Set(['c']))
})

test('two nodes never send a conversation to one hoster, also at the same time', async () => {
  const nodes = Array.from({ length: 8 }, node)
  const claimed = await Promise.all(nodes.map(({ claim }) => claim('d', [first])))
  expect(claimed.filter(isClaimed => isClaimed)).toHaveLength(1)
  expect(await node().claim('d', [second, first])).toBe(false)
  expect(await node().seenBy([second], ['d'])).toEqual(new Set())
  expect(await node().claim('d', [second, third])).toBe(true)
})

test('conversations are forgotten after a day', async () => {
  await node().claim('e', [first])
  await pruneAudits(database.pool, NOW_MS + 86_400_000)
  expect(await node().seenBy([first], ['e'])).toEqual(new Set(['e']))
  await pruneAudits(database.pool, NOW_MS + 86_400_001)
  expect(await node().seenBy([first], ['e'])).toEqual(new Set())
})

test('a conversation is named by its customer and its beginning, and only with the key', () => {
  const [names, others] = [createConversationNames(Buffer.alloc(32)), createConversationNames(Buffer.alloc(32, 1))]
  const of = (...contents: unknown[]) => ({
    forward: { messages: contents.map((content, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content })) },
  })
  const name = names('a', of('Hi.'))
  expect(names('a', of('Hi.', 'Hello.', 'Why?'))).toBe(name)
  const different = [names('b', of('Hi.')), names('a', of('Why?')), others('a', of('Hi.'))]
  expect(new Set([name, ...different]).size).toBe(4)
  expect([names('a', of()), names('a', { forward: {} }), names('a', of('x'.repeat(16_385)))]).toEqual([
    null,
    null,
    null,
  ])
})
