import { randomBytes } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import {
  adoptKey,
  forgetKeys,
  joinRing,
  nominateKey,
  promoteKey,
  readMark,
  readRing,
} from '../../src/base/secrets/key-ring-state.ts'
import { MasterKeys, markOf } from '../../src/base/secrets/master-keys.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase()
beforeEach(() => db.pool.query('DELETE FROM master_key; DELETE FROM node_heartbeat; DELETE FROM node_report'))

const draw = () => randomBytes(32)

/** A living node that reports these keys. */
async function addNode(...keys: Buffer[]): Promise<void> {
  await db.pool.query(
    `WITH n AS (SELECT gen_random_uuid() AS id), h AS (INSERT INTO node_heartbeat (node_id, heartbeats) SELECT id, 1 FROM n)
     INSERT INTO node_report (node_id, version, servers, master_keys) SELECT id, 'test', '[]', $1 FROM n`,
    [JSON.stringify(keys.map(markOf))],
  )
}

test('a database knows whether a server has the key that it seals with, but not the key itself', async () => {
  const [key, other] = [draw(), draw()]
  expect(await joinRing(db.pool, new MasterKeys([key]), false)).toBe('same')
  expect(await joinRing(db.pool, new MasterKeys([key]), false)).toBe('same')
  expect(await readMark(db.pool)).toBe(markOf(key))
  expect(await joinRing(db.pool, new MasterKeys([other]), false)).toBe('replaced')
  expect(await readMark(db.pool)).toBe(markOf(other))
})

test('a server seals with the key that the others seal with, wherever that stands in its file', async () => {
  const [first, second] = [draw(), draw()]
  await joinRing(db.pool, new MasterKeys([first]), false)
  const keys = new MasterKeys([second, first])
  expect(await joinRing(db.pool, keys, false)).toBe('same')
  expect(keys.current).toBe(first)
})

test('a server with another key takes nothing over while a node has the right one', async () => {
  const [key, other] = [draw(), draw()]
  await joinRing(db.pool, new MasterKeys([key]), false)
  await addNode(key)
  expect(await joinRing(db.pool, new MasterKeys([other]), false)).toBe('other')
  expect(await readMark(db.pool)).toBe(markOf(key))
})

// A machine from before a rotation could bring a key back that was replaced because it leaked.
test('a key that was replaced never takes the place of a newer one', async () => {
  const [old, present] = [draw(), draw()]
  await joinRing(db.pool, new MasterKeys([old]), false)
  await nominateKey(db.pool, markOf(present))
  await promoteKey(db.pool, markOf(present))
  for (const isOnlyNode of [false, true])
    expect(await joinRing(db.pool, new MasterKeys([old]), isOnlyNode)).toBe('former')
  await db.pool.query("UPDATE master_key SET state = 'forgotten' WHERE state = 'former'")
  expect(await joinRing(db.pool, new MasterKeys([old]), false)).toBe('former')
  expect(await readMark(db.pool)).toBe(markOf(present))
  await adoptKey(db.pool, markOf(old))
  expect(await joinRing(db.pool, new MasterKeys([old]), false)).toBe('same')
})

test('a node that has not reported yet may have the key', async () => {
  const [key, other] = [draw(), draw()]
  await joinRing(db.pool, new MasterKeys([key]), false)
  await db.pool.query('INSERT INTO node_heartbeat (node_id, heartbeats) VALUES (gen_random_uuid(), 1)')
  expect(await joinRing(db.pool, new MasterKeys([other]), false)).toBe('other')
  expect(await readMark(db.pool)).toBe(markOf(key))
})

test('one key seals at any time, and two commands rotate once', async () => {
  const [first, second, third] = [draw(), draw(), draw()]
  await joinRing(db.pool, new MasterKeys([first]), false)
  await nominateKey(db.pool, markOf(second))
  await nominateKey(db.pool, markOf(third))
  expect(await promoteKey(db.pool, markOf(second))).toBe(true)
  expect(await promoteKey(db.pool, markOf(second))).toBe(false)
  const states = Object.fromEntries((await readRing(db.pool)).map(({ mark, state }) => [mark, state]))
  expect(states).toEqual({ [markOf(first)]: 'former', [markOf(second)]: 'current' })
})

test('no role of the gateway changes which key seals', async () => {
  for (const connection of [db.gatewayConnection, db.deskConnection]) {
    const pool = createPool(connection, { max: 1, applicationName: 'attacker' })
    try {
      await expect(pool.query("UPDATE master_key SET state = 'former'")).rejects.toThrow('permission denied')
      await expect(pool.query('SELECT FROM master_key')).resolves.toBeDefined()
      const resign = "SELECT set_config('switchyard.renews_evidence', 'on', false)"
      await pool.query(resign)
      await expect(pool.query('UPDATE credit_evidence SET mac = mac')).rejects.toThrow('permission denied')
    } finally {
      await pool.end()
    }
  }
})

test('a key that another rotation replaced while the operator was asked is not forgotten', async () => {
  const [first, second, third] = [draw(), draw(), draw()]
  await joinRing(db.pool, new MasterKeys([first]), false)
  for (const key of [second, third]) {
    await nominateKey(db.pool, markOf(key))
    await promoteKey(db.pool, markOf(key))
  }
  expect(await forgetKeys(db.pool, [markOf(first)])).toEqual([markOf(first)])
  expect((await readRing(db.pool)).find(({ mark }) => mark === markOf(second))?.state).toBe('former')
})
