import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { createConversationNames, createSeenConversations } from '../../src/market/trust/audits/seen-conversations.ts'
import { pruneAudits } from '../../src/market/trust/evidence/audit-store.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
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

/** Resolves when a statement waits for a lock in this database. */
const lockWait = () =>
  expect
    .poll(
      async () =>
        (
          await database.pool.query(
            "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
          )
        ).rowCount,
      WAIT_OPTIONS,
    )
    .toBe(1)
const insert = 'INSERT INTO seen_conversation (conversation, hoster_id, seen_at) VALUES ($1, $2, now())'

test('what a timer is writing is waited for, also by a stop', async () => {
  const [here, there] = [node(), node()]
  let isStopped = false
  const { answer, stopped } = await transaction(database.pool, async sql => {
    await sql.query(insert, ['f', first])
    here.note('f', first)
    here.note('g', second)
    here.timers.shift()!()
    await lockWait()
    const answer = here.seenBy([second], ['g'])
    const stopped = here.stop().then(() => {
      isStopped = true
    })
    expect(await there.seenBy([second], ['g'])).toEqual(new Set())
    expect(isStopped).toBe(false)
    return { answer: () => answer, stopped: () => stopped }
  })
  expect(await answer()).toEqual(new Set(['g']))
  await stopped()
})

test('notes that could not be written are tried again, also when the timer was cancelled for them', async () => {
  const here = node()
  here.note('h', first)
  await database.pool.query('ALTER TABLE seen_conversation RENAME TO missing')
  await expect(here.seenBy([first], ['h'])).rejects.toThrow('seen_conversation')
  await database.pool.query('ALTER TABLE missing RENAME TO seen_conversation')
  expect(here.timers).toHaveLength(1)
  here.timers.shift()!()
  await expect.poll(() => node().seenBy([first], ['h']), WAIT_OPTIONS).toEqual(new Set(['h']))
})

test('a claim knows what its node noted and has not written', async () => {
  const here = node()
  here.note('i', first)
  expect(await here.claim('i', [first])).toBe(false)
})

test('claims of the same hosters in another order do not deadlock', async () => {
  const [low, high] = [first, second].sort() as [string, string]
  const { claimed } = await transaction(database.pool, async sql => {
    await sql.query(insert, ['j', low])
    const claimed = node().claim('j', [high, low])
    await lockWait()
    await sql.query(insert, ['j', high])
    return { claimed: () => claimed }
  })
  expect(await claimed()).toBe(false)
})

test('conversations are forgotten after a day', async () => {
  await node().claim('e', [first])
  await pruneAudits(database.pool, NOW_MS + 86_400_000)
  expect(await node().seenBy([first], ['e'])).toEqual(new Set(['e']))
  await pruneAudits(database.pool, NOW_MS + 86_400_001)
  expect(await node().seenBy([first], ['e'])).toEqual(new Set())
})

test('a conversation is named by its customer and its beginning, and only with the key', () => {
  const [names, others] = [
    createConversationNames(fixedKey(Buffer.alloc(32))),
    createConversationNames(fixedKey(Buffer.alloc(32, 1))),
  ]
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
