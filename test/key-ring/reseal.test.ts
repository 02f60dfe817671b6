import { spawn } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { beforeEach, expect, test } from 'vitest'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { finishRotation } from '../../src/base/secrets/finish-rotation.ts'
import { isResealed, joinRing, nominateKey, promoteKey } from '../../src/base/secrets/key-ring-state.ts'
import { MasterKeys, markOf } from '../../src/base/secrets/master-keys.ts'
import { countSealed, resealAll } from '../../src/base/secrets/reseal.ts'
import { openSecret, sealSecret } from '../../src/base/secrets/sealed-secret.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase('test')
let former: Buffer
let keys: MasterKeys
const silent = { info() {}, warn() {} }
const pools = () => ({ gateway: db.pool, desk: db.pool })
const finish = () =>
  finishRotation({ pools: pools(), masterKeys: keys, signal: new AbortController().signal, log: silent })

beforeEach(async () => {
  former = randomBytes(32)
  const current = randomBytes(32)
  await joinRing(db.pool, new MasterKeys([former]), true)
  await nominateKey(db.pool, markOf(current))
  await promoteKey(db.pool, markOf(current))
  keys = new MasterKeys([current, former])
})

/** Adds answers that the former key sealed. */
async function addAnswers(count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID())
  const sealed = ids.map(ownerId =>
    sealSecret(fixedKey(former), `answer ${ownerId}`, { ownerId, purpose: 'stored_answer' }),
  )
  await db.pool.query(
    `INSERT INTO idempotency (customer_id, key, body_hash, request_id, node_id, state, cost_nanos, answer_sealed, heartbeats, expires_at)
     SELECT '00000000-0000-4000-8000-000000000001', id::text, sha256('x'), id, id, 'done', 0, sealed, 0, now() + interval '1 day'
       FROM unnest($1::uuid[], $2::bytea[]) AS a (id, sealed)`,
    [ids, sealed],
  )
  return ids
}

async function answers(): Promise<{ id: string; sealed: Buffer }[]> {
  const { rows } = await db.pool.query<{ id: string; sealed: Buffer }>(
    'SELECT request_id AS id, answer_sealed AS sealed FROM idempotency ORDER BY 1',
  )
  return rows
}

async function counts() {
  const { current, former, unknown } = (await countSealed(db.pool, keys)).find(
    ({ place }) => place.purpose === 'stored_answer',
  )!
  return { current, former, unknown }
}

test('a process that is killed in the middle loses nothing, and the next one goes on', async () => {
  const ids = await addAnswers(200)
  const child = spawn(process.execPath, [new URL('./reseal-process.ts', import.meta.url).pathname], {
    env: {
      PATH: process.env.PATH!,
      CONNECTION: JSON.stringify(db.connection),
      KEYS: keys.all.map(key => key.toString('hex')).join(),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  for await (const line of createInterface({ input: child.stdout })) if (line === 'resealed') break
  child.kill('SIGKILL')
  expect((await ended)[1]).toBe('SIGKILL')
  const killed = await counts()
  expect(killed.current).toBeGreaterThan(0)
  expect(killed.former).toBeGreaterThan(0)
  const readable = (rows: Awaited<ReturnType<typeof answers>>) =>
    rows.filter(
      ({ id, sealed }) => openSecret(keys, sealed, { ownerId: id, purpose: 'stored_answer' }) === `answer ${id}`,
    )
  expect(readable(await answers())).toHaveLength(ids.length)
  await finish()
  await finish()
  expect(await counts()).toEqual({ current: ids.length, former: 0, unknown: 0 })
  expect(readable(await answers())).toHaveLength(ids.length)
  expect(await isResealed(db.pool)).toBe(true)
})

test('a value that changes while it is sealed again stays as its writer wrote it', async () => {
  const [id] = await addAnswers(1)
  const owner = { ownerId: id!, purpose: 'stored_answer' } as const
  // Its writer comes between the read and the write of the pass.
  const racing = {
    query: async (text: string, values?: readonly unknown[]) => {
      if (text.startsWith('UPDATE idempotency'))
        await db.pool.query('UPDATE idempotency SET answer_sealed = $1', [sealSecret(keys, 'newer', owner)])
      return db.pool.query(text, values)
    },
  }
  const passed = await resealAll({ pools: { gateway: racing as never, desk: db.pool }, keys })
  expect(passed.map(({ resealed }) => resealed)).toEqual(passed.map(() => 0))
  expect(openSecret(keys, (await answers())[0]!.sealed, owner)).toBe('newer')
})

test('two passes at the same time seal each value once', async () => {
  await addAnswers(200)
  const passes = await Promise.all([1, 2].map(() => resealAll({ pools: pools(), keys })))
  const total = passes.flat().reduce((sum, { resealed }) => sum + resealed, 0)
  expect(total).toBe(200)
  expect(await counts()).toEqual({ current: 200, former: 0, unknown: 0 })
})

test('a value that no key opens is left and counted, and does not stop the others', async () => {
  await addAnswers(30)
  await db.pool.query('UPDATE idempotency SET answer_sealed = $1 WHERE key = (SELECT min(key) FROM idempotency)', [
    sealSecret(fixedKey(randomBytes(32)), 'lost', { ownerId: randomUUID(), purpose: 'stored_answer' }),
  ])
  const [answersPassed] = (await resealAll({ pools: pools(), keys })).filter(
    ({ place }) => place.purpose === 'stored_answer',
  )
  expect(answersPassed).toMatchObject({ resealed: 29, unreadable: 1 })
  expect(await counts()).toEqual({ current: 29, former: 0, unknown: 1 })
})

test('a node that has not noticed the rotation seals nothing again, and the rotation waits for it', async () => {
  await addAnswers(3)
  const behind = new MasterKeys([former, keys.current])
  await finishRotation({ pools: pools(), masterKeys: behind, signal: new AbortController().signal, log: silent })
  expect(await counts()).toEqual({ current: 0, former: 3, unknown: 0 })
  const node = randomUUID()
  await db.pool.query('INSERT INTO node_heartbeat (node_id, heartbeats) VALUES ($1, 1)', [node])
  const report = (marks: string[]) =>
    db.pool.query(
      `INSERT INTO node_report (node_id, version, servers, master_keys) VALUES ($1, 'test', '[]', $2)
       ON CONFLICT (node_id) DO UPDATE SET master_keys = excluded.master_keys`,
      [node, JSON.stringify(marks)],
    )
  await report([markOf(former)])
  await finish()
  await finish()
  expect([await counts(), await isResealed(db.pool)]).toEqual([{ current: 3, former: 0, unknown: 0 }, false])
  await report([markOf(keys.current), markOf(former)])
  await finish()
  expect(await isResealed(db.pool)).toBe(true)
})
