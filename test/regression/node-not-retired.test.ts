import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { databaseUrl } from '../cli/run-cli.ts'
import { createTestDatabase } from '../harness/database.ts'
import { startGatewayProcess } from '../nodes/gateway-process.ts'

// Went wrong: the next start treated the node as alive, so its leases stayed open for another minute and a half (fixed in 7ace42f).
test('a node that could not record its end in PostgreSQL is declared dead by the next start', async () => {
  await using undo = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-away-'))
  undo.defer(() => rm(directory, { recursive: true }))
  const database = await createTestDatabase()
  undo.defer(() => database.drop())
  const start = () => startGatewayProcess({ directory, env: { DATABASE_URL: databaseUrl(database.connection) } })
  const { pool } = database

  const first = await start()
  undo.defer(() => first.signal('SIGKILL'))
  // Refuses the update that retires the node, like a database that has become read-only.
  await pool.query(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'read only' USING ERRCODE = '25006'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON node FOR EACH ROW WHEN (new.state = 'dead') EXECUTE FUNCTION refuse()`)
  expect(await first.stop()).toBe(0)
  expect(first.log.map(({ msg }) => msg)).toContain('this node could not be retired')
  const { rows: left } = await pool.query<{ node_id: string }>("SELECT node_id FROM node WHERE state = 'alive'")
  expect(left).toHaveLength(1)
  await pool.query('DROP TRIGGER refuse ON node')

  const second = await start()
  undo.defer(async () => void (await second.stop()))
  const { rows } = await pool.query('SELECT state FROM node WHERE node_id = $1', [left[0]!.node_id])
  // A dead node without leases is forgotten.
  expect(rows).toEqual([])
})
