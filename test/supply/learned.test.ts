import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Pool } from '../../src/base/db/pool.ts'
import type { Scheduler } from '../../src/base/runtime/scheduler.ts'
import { createHealth } from '../../src/market/supply/breakers/health.ts'
import { createLearnedExchange, snapshotLearned } from '../../src/market/supply/learned/learned-exchange.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

// Nodes that share what they learn through a real PostgreSQL. Their clocks stand still unless a test moves them.

const database = useTestDatabase()
const log = { warn: vi.fn() }
let nowMs: number

beforeEach(() => {
  nowMs = 1_000_000
})
afterEach(() => database.pool.query('TRUNCATE learned_offer, learned_snapshot'))

const request = { stream: true, outputTokens: null }

/** A node that runs. `exchange` stands for its timer. */
function node(pool: Pick<Pool, 'query'> = database.pool) {
  const clock = { epochMs: () => nowMs, monotonicMs: () => nowMs }
  const health = createHealth({ clock, random: () => 0.5 })
  const nodeId = randomUUID()
  const { exchange } = createLearnedExchange({
    pool: pool as Pool,
    nodeId: () => nodeId,
    health,
    scheduler: clock as Scheduler,
    log,
  })
  return {
    nodeId,
    health,
    exchange,
    fail(times: number, outcome: Parameters<typeof health.recordFailure>[1] = 'server_error') {
      for (let n = 0; n < times; n++) health.recordFailure('gpu/m/1', outcome)
    },
    succeed(times: number, firstTokenMs = 200) {
      for (let n = 0; n < times; n++)
        health.recordSuccess('gpu/m/1', { firstTokenMs, totalMs: 1_190, outputTokens: 100 })
    },
    state: () => health.state('gpu/m/1'),
    ejectedForMs: () => health.ejectedForMs('gpu/m/1'),
    predictMs: () => health.predictMs('gpu/m/1', request),
  }
}

/** Writes a row as if a node had written it so long ago. */
const age = (seconds: number) =>
  database.pool.query("UPDATE learned_offer SET at = at - $1 * interval '1 second'", [seconds])
const rowCount = async (table: string) => (await database.pool.query(`SELECT FROM ${table}`)).rowCount

test('a node that starts later knows an ejected offer and its latency at once', async () => {
  const first = node()
  first.succeed(6)
  first.fail(5)
  await first.exchange()
  const later = node()
  await later.exchange()
  expect(later.state()).toBe('ejected')
  // Never longer than at the node that ejected it.
  expect(later.ejectedForMs()).toBeLessThanOrEqual(first.ejectedForMs())
  expect(later.ejectedForMs()).toBeGreaterThan(4_000)
  expect(later.predictMs()).toBeCloseTo(200, -1)
  // The trial after it is of its own, and one success is enough.
  nowMs += 5_000
  expect(later.state()).toBe('probing')
  later.succeed(1)
  expect(later.state()).toBe('open')
  expect(later.health.read('gpu/m/1', request, { isLearned: true, capacity: undefined }).share).toBeCloseTo(0.1)
})

test('a failed trial of an ejection that was taken over is an ejection of its own, and a longer one', async () => {
  const first = node()
  first.fail(5)
  await first.exchange()
  const other = node()
  await other.exchange()
  nowMs += 5_000
  other.fail(1)
  expect(other.ejectedForMs()).toBe(10_000)
  await other.exchange()
  await first.exchange()
  // The first node has evidence of its own and decides by it.
  expect(first.state()).toBe('probing')
})

test('fresh successes of a node win over the ejection of another', async () => {
  const [first, other] = [node(), node()]
  first.fail(5)
  await first.exchange()
  nowMs += 1_000
  other.succeed(1)
  await age(2)
  await other.exchange()
  expect(other.state()).toBe('open')
  // And a success ends an ejection that was taken over before.
  const third = node()
  await third.exchange()
  expect(third.state()).toBe('ejected')
  third.succeed(1)
  expect(third.state()).toBe('open')
  await third.exchange()
  expect(third.state()).toBe('open')
})

test('pauses that a server asks for hold on all nodes, and a refused key ejects on all', async () => {
  const [first, other] = [node(), node()]
  first.fail(1, 'busy')
  first.health.recordFailure('gpu/m/1', 'busy', 30)
  first.health.recordFailure('cloud/m', 'credential_rejected')
  await first.exchange()
  await other.exchange()
  expect(other.ejectedForMs()).toBeGreaterThan(28_000)
  expect(other.ejectedForMs()).toBeLessThanOrEqual(30_000)
  expect(other.health.ejectedForMs('cloud/m')).toBeGreaterThan(298_000)
  other.succeed(1)
  expect(other.state()).toBe('open')
})

test('what was taken over is not passed on, so it ends everywhere', async () => {
  const [first, other, third] = [node(), node(), node()]
  first.fail(5)
  await first.exchange()
  await other.exchange()
  other.health.beginRequest('gpu/m/1')
  await other.exchange()
  await database.pool.query('DELETE FROM learned_offer WHERE node_id = $1', [first.nodeId])
  await third.exchange()
  expect(third.state()).toBe('open')
})

test('the results of all nodes together show a failure rate that no node sees alone', async () => {
  const nodes = [node(), node(), node()]
  for (const each of nodes) {
    for (let n = 0; n < 4; n++) {
      each.succeed(1)
      each.fail(1)
    }
    await each.exchange()
    expect(each.state()).toBe('open')
  }
  for (const each of nodes) await each.exchange()
  const [first] = nodes
  first!.fail(1)
  expect(first!.state()).toBe('ejected')
})

test('latencies are combined by count', async () => {
  const [first, other, third] = [node(), node(), node()]
  first.succeed(9, 100)
  other.succeed(1, 600)
  await first.exchange()
  await other.exchange()
  await third.exchange()
  expect(third.predictMs()).toBeCloseTo(150, -1)
  // Its own five answers are better evidence.
  third.succeed(5, 300)
  expect(third.predictMs()).toBeCloseTo(300)
  // Samples of others also count towards the five that a prediction needs.
  const fourth = node()
  await fourth.exchange()
  nowMs += 600_000
  expect(fourth.predictMs()).toBe(null)
})

test('a node that restarts knows what it knew', async () => {
  const before = node()
  before.succeed(6)
  before.fail(5)
  await before.exchange()
  const after = node()
  await after.exchange()
  expect([after.state(), after.predictMs() === null]).toEqual(['ejected', false])
})

test('the snapshot survives a crash of PostgreSQL, which empties the table of the nodes', async () => {
  const before = node()
  before.succeed(6)
  before.fail(5)
  await before.exchange()
  await snapshotLearned(database.pool)
  await database.pool.query('TRUNCATE learned_offer')
  // A running node goes on with what it knows.
  await before.exchange()
  expect(before.state()).toBe('ejected')
  const after = node()
  await after.exchange()
  expect(after.state()).toBe('ejected')
  expect(after.predictMs()).toBeCloseTo(200, -1)
})

test('nothing is written when nothing changed', async () => {
  const only = node()
  await only.exchange()
  expect(await rowCount('learned_offer')).toBe(0)
  await snapshotLearned(database.pool)
  expect(await rowCount('learned_snapshot')).toBe(0)
  only.succeed(1)
  await only.exchange()
  await snapshotLearned(database.pool)
  const versions = async () =>
    (
      await database.pool.query(
        'SELECT xmin::text FROM learned_offer UNION ALL SELECT xmin::text FROM learned_snapshot',
      )
    ).rows
  const written = await versions()
  expect(written.length).toBe(2)
  await only.exchange()
  await snapshotLearned(database.pool)
  expect(await versions()).toEqual(written)
})

test('rows are bounded: a node writes 1,000 at a time, and those of stopped nodes are removed', async () => {
  const only = node()
  for (let n = 0; n < 1_500; n++) only.health.recordSuccess(`gpu/${n}`, { firstTokenMs: 1 })
  await only.exchange()
  expect(await rowCount('learned_offer')).toBe(1_000)
  await only.exchange()
  expect(await rowCount('learned_offer')).toBe(1_500)
  await age(601)
  await snapshotLearned(database.pool)
  expect(await rowCount('learned_offer')).toBe(0)
})

test('without PostgreSQL nothing is lost: it is written with the next exchange', async () => {
  let isAway = true
  const query: Pool['query'] = (...args: Parameters<Pool['query']>) =>
    isAway ? Promise.reject(new Error('away')) : database.pool.query(...args)
  const cutOff = node({ query })
  cutOff.fail(5)
  await expect(cutOff.exchange()).rejects.toThrow('away')
  isAway = false
  await cutOff.exchange()
  const other = node()
  await other.exchange()
  expect(other.state()).toBe('ejected')
})

test('a row in the form of another release is ignored', async () => {
  await database.pool.query(
    `INSERT INTO learned_offer (node_id, endpoint_id, model_id, at, learned) VALUES ($1, 'gpu', 'm/1', now(), '{"v":2}')`,
    [randomUUID()],
  )
  const only = node()
  await only.exchange()
  expect(only.state()).toBe('open')
})
