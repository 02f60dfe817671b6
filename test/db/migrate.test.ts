import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FUNCTIONS_VERSION, migrate, pendingMigrations } from '../../src/base/db/migrate.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase('test')
let directory: string
beforeEach(async () => {
  // The template has this version's migrations applied; these tests use other migrations.
  await db.pool.query('DROP SCHEMA public CASCADE')
  await db.pool.query('CREATE SCHEMA public')
  directory = await mkdtemp(join(tmpdir(), 'switchyard-migrations-'))
  await write('0001_fruit.sql', 'CREATE TABLE fruit (name text);\nINSERT INTO fruit VALUES ($$apple$$);\n')
  await write('0002_colour.sql', 'ALTER TABLE fruit ADD colour text;\n')
})
afterEach(() => rm(directory, { recursive: true }))

const path = (name: string) => join(directory, name.includes('/') ? name : join('migrations', name))
const write = async (name: string, sql: string) => {
  await mkdir(dirname(path(name)), { recursive: true })
  await writeFile(path(name), sql)
}
const run = () => migrate(db.connection, directory)

it('applies the files in order, once, and returns which', async () => {
  expect(await run()).toEqual(['0001_fruit.sql', '0002_colour.sql'])
  expect(await run()).toEqual([])
  await write('0003_pear.sql', "INSERT INTO fruit VALUES ('pear', 'green');")
  expect(await run()).toEqual(['0003_pear.sql'])
  expect((await db.pool.query('SELECT * FROM fruit ORDER BY name')).rows).toEqual([
    { name: 'apple', colour: null },
    { name: 'pear', colour: 'green' },
  ])
})

it('applies each file once when several nodes start together', async () => {
  const applied = await Promise.all([run(), run(), run(), run()])
  expect(applied.map(list => list.length).sort()).toEqual([0, 0, 0, 2])
  expect((await db.pool.query('SELECT * FROM fruit')).rows).toHaveLength(1)
})

it('reports that it waits for another process that migrates', async () => {
  // "symg" in ASCII, as in migrate.ts.
  const holder = await db.pool.pg.connect()
  await holder.query('SELECT pg_advisory_lock($1)', [0x7379_6d67])
  const waiting = Promise.withResolvers<void>()
  const applied = migrate(db.connection, directory, waiting.resolve)
  await waiting.promise
  await holder.query('SELECT pg_advisory_unlock($1)', [0x7379_6d67])
  holder.release()
  expect(await applied).toHaveLength(2)
})

// Went wrong: PostgreSQL refused the charges of the older gateway, and they were lost.
it('refuses to change tables while a gateway serves, and not for one that was killed', async () => {
  await run()
  await db.pool.query(`CREATE TABLE node (node_id int, state text); INSERT INTO node VALUES (1, 'alive'), (2, 'dead');
    CREATE TABLE node_heartbeat (node_id int, heartbeats int); INSERT INTO node_heartbeat VALUES (1, 5), (2, 5)`)
  await write('0003_next.sql', 'CREATE TABLE next ();')
  let isServing = true
  const serving = (async () => {
    while (isServing) await db.pool.query('UPDATE node_heartbeat SET heartbeats = heartbeats + 1')
  })()
  await expect(run()).rejects.toThrow(/^1 gateway uses this database.*Stop every gateway of the earlier version first/)
  expect((await db.pool.query("SELECT to_regclass('next') AS next")).rows).toEqual([{ next: null }])
  isServing = false
  await serving
  expect(await run()).toEqual(['0003_next.sql'])
})

it('refuses a file that was edited after it was applied', async () => {
  await run()
  await write('0001_fruit.sql', 'CREATE TABLE fruit (name text NOT NULL);\n')
  await write('0003_next.sql', 'CREATE TABLE next ();')
  await expect(run()).rejects.toThrow(/0001_fruit.sql was changed after it was applied.*new migration/)
  expect((await db.pool.query("SELECT to_regclass('next') AS next")).rows).toEqual([{ next: null }])
})

it('names the rights that the role lacks before it creates anything', async () => {
  const { database, user } = db.connection
  await db.pool.query('REVOKE CREATE ON SCHEMA public FROM CURRENT_USER, pg_database_owner')
  const refusal = `The role ${user} may not create tables and schemas in the database ${database}. Make it the owner`
  await expect(run()).rejects.toThrow(refusal)
  await expect(pendingMigrations(db.pool, directory)).rejects.toThrow(refusal)
  await db.pool.query('GRANT CREATE ON SCHEMA public TO CURRENT_USER')
  expect(await pendingMigrations(db.pool, directory)).toEqual(['0001_fruit.sql', '0002_colour.sql'])
  await db.pool.query(`ALTER DATABASE ${database} SET default_transaction_read_only = on`)
  await expect(run()).rejects.toThrow(`The database ${database} can only be read by the role ${user}`)
})

it('creates no second set of tables when another schema becomes first in the search_path', async () => {
  await run()
  const { user } = db.connection
  await db.pool.query(`CREATE SCHEMA ${user}`)
  const refusal = `The tables are in the schema public of the database ${db.connection.database}, but the role ${user} would create new ones in ${user}`
  await expect(run()).rejects.toThrow(refusal)
  await expect(pendingMigrations(db.pool, directory)).rejects.toThrow(refusal)
  const message = await run().then(String, (error: Error) => error.message)
  await db.pool.query(message.slice(message.indexOf('ALTER ROLE')))
  expect(await run()).toEqual([])
})

it('waits for another process even if the timeouts of its role are short', async () => {
  const { database } = db.connection
  for (const name of ['statement_timeout', 'lock_timeout']) {
    await db.pool.query(`ALTER DATABASE ${database} SET ${name} = 1`)
  }
  const holder = await db.pool.pg.connect()
  const waiting = Promise.withResolvers<void>()
  try {
    await holder.query('SELECT pg_advisory_lock($1)', [0x7379_6d67])
    const applied = migrate(db.connection, directory, waiting.resolve)
    await Promise.race([waiting.promise, applied])
    // Longer than the timeouts.
    const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'
      AND clock_timestamp() - query_start > interval '10 ms'`
    await expect.poll(async () => (await holder.query(waits)).rowCount).toBe(1)
    await holder.query('SELECT pg_advisory_unlock($1)', [0x7379_6d67])
    expect(await applied).toHaveLength(2)
  } finally {
    holder.release(true)
  }
})

it('does not mistake Windows line ends for an edit', async () => {
  await run()
  await write('0002_colour.sql', 'ALTER TABLE fruit ADD colour text;\r\n')
  expect(await run()).toEqual([])
})

it('refuses another file in place of an applied one', async () => {
  await run()
  await rename(path('0002_colour.sql'), path('0002_taste.sql'))
  await expect(run()).rejects.toThrow(/0002_colour.sql was applied.*has 0002_taste.sql in its place/)
})

it('refuses a database that a newer version has migrated', async () => {
  await run()
  await rm(path('0002_colour.sql'))
  await expect(run()).rejects.toThrow(/newer than this Switchyard: it has migration 0002_colour.sql/)
})

it('rolls back all of an upgrade when a file fails, and names the line', async () => {
  await write('0002_colour.sql', 'CREATE TABLE half ();\nSELECT 1;\nSELECT nothing;\n')
  await expect(run()).rejects.toThrow('Migration 0002_colour.sql failed at line 3: column "nothing" does not exist')
  expect((await db.pool.query("SELECT to_regclass('half') AS half, to_regclass('fruit')::text AS fruit")).rows).toEqual(
    [{ half: null, fruit: null }],
  )
  await write('0002_colour.sql', 'ALTER TABLE fruit ADD colour text;\n')
  expect(await run()).toEqual(['0001_fruit.sql', '0002_colour.sql'])
})

it.each(['0004_gap.sql', '3_short.sql', '0002_twice.sql'])('refuses the file name %s', async name => {
  await write(name, 'SELECT 1;')
  await expect(run()).rejects.toThrow(/numbered without gaps/)
})

describe('functions', () => {
  const answer = async () => (await db.pool.query('SELECT answer()')).rows[0]!.answer
  const writeAnswer = (value: number) =>
    write(
      'functions/answer.sql',
      `CREATE OR REPLACE FUNCTION answer() RETURNS int LANGUAGE sql AS $$ SELECT n + ${value} FROM base_of_answer() n $$;`,
    )
  beforeEach(async () => {
    await writeAnswer(1)
    // Called by `answer`, and created after it.
    await write(
      'functions/base.sql',
      'CREATE OR REPLACE FUNCTION base_of_answer() RETURNS int LANGUAGE sql AS $$ SELECT 40 $$;',
    )
    await write(
      'functions/rights.sql',
      'CREATE OR REPLACE FUNCTION renew_gateway_rights() RETURNS void LANGUAGE sql AS $$ $$;',
    )
  })

  it('come after the tables, and again when one of them changed', async () => {
    expect(await run()).toEqual(['0001_fruit.sql', '0002_colour.sql', 'the functions of this version'])
    expect(await answer()).toBe(41)
    expect(await run()).toEqual([])
    await writeAnswer(2)
    expect(await pendingMigrations(db.pool, directory)).toEqual(['the functions of this version'])
    expect(await run()).toEqual(['the functions of this version'])
    expect(await answer()).toBe(42)
  })

  it('are there for the last part of a migration', async () => {
    const heading = '-- ---------------- with the functions of this version'
    await write(
      '0003_answer.sql',
      `CREATE TABLE answered (n int);\n${heading}\nINSERT INTO answered SELECT answer();\n`,
    )
    await run()
    expect((await db.pool.query('SELECT n FROM answered')).rows).toEqual([{ n: 41 }])
    await write('0004_wrong.sql', `SELECT 1;\n${heading}\nSELECT nothing;\n`)
    await expect(run()).rejects.toThrow('Migration 0004_wrong.sql failed at line 3: column "nothing" does not exist')
  })

  it('of an upgrade that fails are not there', async () => {
    await run()
    await writeAnswer(2)
    await write('functions/wrong.sql', '\nSELECT nothing;')
    await expect(run()).rejects.toThrow('sql/functions/wrong.sql failed at line 2: column "nothing" does not exist')
    expect(await answer()).toBe(41)
  })

  it('of a newer version stay', async () => {
    await run()
    await db.pool.query('UPDATE migration_functions SET version = version + 1')
    await writeAnswer(2)
    const refusal = `its functions have version ${FUNCTIONS_VERSION + 1}, and this version ends at ${FUNCTIONS_VERSION}`
    await expect(run()).rejects.toThrow(refusal)
    await expect(pendingMigrations(db.pool, directory)).rejects.toThrow(refusal)
    expect(await answer()).toBe(41)
  })
})

it('lets others go on while a table that it changes is in use', async () => {
  await run()
  await write('0003_taste.sql', 'ALTER TABLE fruit ADD taste text;')
  const [reader, other] = [await db.pool.pg.connect(), await db.pool.pg.connect()]
  const waiting = Promise.withResolvers<void>()
  try {
    await reader.query('BEGIN; SELECT FROM fruit')
    const applied = migrate(db.connection, directory, waiting.resolve)
    await waiting.promise
    // A lock that waits would make this wait too, for as long as the transaction of the reader lasts.
    expect((await other.query('SELECT name FROM fruit')).rows).toEqual([{ name: 'apple' }])
    await reader.query('COMMIT')
    expect(await applied).toEqual(['0003_taste.sql'])
  } finally {
    reader.release(true)
    other.release()
  }
})
