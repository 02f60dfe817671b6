import { randomBytes, randomUUID } from 'node:crypto'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { finishRotation } from '../../src/base/secrets/finish-rotation.ts'
import {
  isResealed,
  joinRing,
  nominateKey,
  promoteKey,
  readMark,
  readRing,
} from '../../src/base/secrets/key-ring-state.ts'
import { writeMasterKeys } from '../../src/base/secrets/master-key.ts'
import { MasterKeys, markOf } from '../../src/base/secrets/master-keys.ts'
import { openSecret, sealSecret } from '../../src/base/secrets/sealed-secret.ts'
import { useCli } from '../cli/use-cli.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

// Machines that lack a key: what they cannot open, another one may.

const db = useTestDatabase()
const whole = useCli(db)
const lacking = useCli(db)
const silent = { info() {}, warn() {} }

test('a machine that lacks a former key neither ends the rotation nor lets others lose the key', async () => {
  const [old, present] = [randomBytes(32), randomBytes(32)]
  await joinRing(db.pool, new MasterKeys([old]), true)
  await db.pool.query(
    "INSERT INTO customer (customer_id, email, account_tier) VALUES (gen_random_uuid(), 'ada@example.com', 'free')",
  )
  const owner = { ownerId: randomUUID(), purpose: 'webhook_secret' } as const
  await db.pool.query(
    `INSERT INTO alert_rule (rule_id, customer_id, kind, threshold_nanos, channel, target, secret_sealed)
     SELECT $1, customer_id, 'low_balance', 1, 'webhook', 'http://127.0.0.1:1', $2 FROM customer`,
    [owner.ownerId, sealSecret(new MasterKeys([old]), 'whsec', owner)],
  )
  await nominateKey(db.pool, markOf(present))
  await promoteKey(db.pool, markOf(present))
  writeMasterKeys(whole.directory, [present, old])
  writeMasterKeys(lacking.directory, [present])

  const pools = { gateway: db.pool, desk: db.pool }
  const signal = new AbortController().signal
  await finishRotation({ pools, masterKeys: new MasterKeys([present]), signal, log: silent })
  expect(await isResealed(db.pool)).toBe(false)
  const refused = await lacking.run(['key-ring', 'forget', '--yes'])
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^This machine lacks [0-9a-f]{12}, which may have sealed 1 in/),
  })

  // Somebody is sure, and is wrong: the machine that has the key still does not lose it.
  expect(await lacking.run(['key-ring', 'forget', '--yes', '--lost'])).toMatchObject({
    code: 0,
    stdout: 'This machine has no forgotten key.\n',
  })
  expect((await whole.run(['key-ring', 'forget', '--yes'])).code).toBe(0)
  const [sealed] = (await db.pool.query<{ secret_sealed: Buffer }>('SELECT secret_sealed FROM alert_rule')).rows
  expect(openSecret(new MasterKeys([present]), sealed!.secret_sealed, owner)).toBe('whsec')
})

test('adopt seals with the key of this machine, and leaves an entry', async () => {
  const before = await readMark(db.pool)
  const own = randomBytes(32)
  writeMasterKeys(lacking.directory, [own])
  await db.pool.query('INSERT INTO node_heartbeat (node_id, heartbeats) VALUES (gen_random_uuid(), 1)')
  expect(await lacking.run(['key-ring', 'adopt', '--yes'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('Stop all gateways first'),
  })
  await db.pool.query('DELETE FROM node_heartbeat')
  expect((await lacking.run(['key-ring', 'adopt', '--yes'])).code).toBe(0)
  expect(await readMark(db.pool)).toBe(markOf(own))
  expect((await readRing(db.pool)).find(({ mark }) => mark === before)?.state).toBe('former')
  const { rows } = await db.pool.query(
    "SELECT count(*)::int AS entries FROM audit_entry WHERE action = 'master_key.adopted'",
  )
  expect(rows).toEqual([{ entries: 1 }])
})

test('drafts of killed processes do not stay beside the file', () => {
  // No process has this number: the largest one that Linux gives is 4,194,304.
  const draft = `master.key.4194999.${'ab'.repeat(4)}`
  writeFileSync(join(whole.directory, draft), 'keys')
  writeMasterKeys(whole.directory, [randomBytes(32)])
  expect(readdirSync(whole.directory).filter(name => name.startsWith('master.key'))).toEqual(['master.key'])
})
