import { beforeAll, describe, expect, it, vi } from 'vitest'
import { createPool, transaction, withQueryTimeout } from '../../src/base/db/pool.ts'
import { createTestDatabase } from '../harness/database.ts'
import { startFaultProxy } from '../harness/fault-proxy.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase()
beforeAll(async () => {
  await db.pool.query('CREATE TABLE note (id int PRIMARY KEY, text text)')
})

describe('values', () => {
  it('reads money as bigint, alone and in arrays, beyond what a number can hold', async () => {
    const { rows } = await db.pool.query(
      "SELECT 9007199254740993::bigint AS one, ARRAY[1, NULL, 9007199254740993]::bigint[] AS many, '{{1},{2}}'::bigint[] AS deep",
    )
    expect(rows).toEqual([{ one: 9007199254740993n, many: [1n, null, 9007199254740993n], deep: [[1n], [2n]] }])
  })

  it('writes bigint', async () => {
    const { rows } = await db.pool.query('SELECT $1::bigint AS one, $2::bigint[] AS many', [
      9007199254740993n,
      [1n, 2n],
    ])
    expect(rows).toEqual([{ one: 9007199254740993n, many: [1n, 2n] }])
  })

  it('returns a date as text in any time zone', async () => {
    const { rows } = await db.pool.query(
      "SELECT '2026-03-01'::date AS day, ARRAY['2024-02-29'::date] AS days, '2026-03-01T00:00:00Z'::timestamptz AS instant",
    )
    expect(rows).toEqual([{ day: '2026-03-01', days: ['2024-02-29'], instant: new Date('2026-03-01T00:00:00Z') }])
  })

  it('reads and writes the same values whatever session settings the database has', async () => {
    const strange = await createTestDatabase()
    const { database } = strange.connection
    await strange.pool.query(`ALTER DATABASE ${database} SET datestyle = 'German, DMY'`)
    await strange.pool.query(`ALTER DATABASE ${database} SET default_transaction_isolation = 'serializable'`)
    await strange.pool.query(`ALTER DATABASE ${database} SET idle_session_timeout = '1s'`)
    await strange.pool.query(`ALTER DATABASE ${database} SET array_nulls = off`)
    await strange.pool.query(`ALTER DATABASE ${database} SET jit = on`)
    await strange.pool.query(`ALTER DATABASE ${database} SET extra_float_digits = -3`)
    const pool = createPool(strange.connection, { max: 1, applicationName: 'strange' })
    const { rows } = await pool.query(
      "SELECT '2026-03-04T00:00:00Z'::timestamptz AS instant, '2026-03-04'::date AS day, current_setting('transaction_isolation') AS isolation, current_setting('idle_session_timeout') AS idle, current_setting('jit') AS jit, $1::bigint[] AS some, 1795410077105::float8 AS epoch_ms",
      [[1n, null]],
    )
    expect(rows).toEqual([
      {
        instant: new Date('2026-03-04T00:00:00Z'),
        day: '2026-03-04',
        isolation: 'read committed',
        idle: '0',
        jit: 'off',
        some: [1n, null],
        epoch_ms: 1_795_410_077_105,
      },
    ])
    await pool.end()
    await strange.drop()
  })

  it('leaves the parsers of other libraries in the process alone', async () => {
    const { default: pg } = await import('pg')
    const client = new pg.Client(db.connection)
    await client.connect()
    const { rows } = await client.query('SELECT 1::bigint AS one')
    await client.end()
    expect(rows).toEqual([{ one: '1' }])
  })
})

describe('statements', () => {
  it('prepares a named statement once per connection', async () => {
    const pool = createPool(db.connection, { max: 1, applicationName: 'named' })
    const add = { name: 'add', text: 'SELECT $1::int + $2::int AS sum' }
    expect((await pool.query(add, [1, 2])).rows).toEqual([{ sum: 3 }])
    expect((await pool.query(add, [3, 4])).rows).toEqual([{ sum: 7 }])
    const { rows } = await pool.query('SELECT name, generic_plans + custom_plans AS runs FROM pg_prepared_statements')
    await pool.end()
    expect(rows).toEqual([{ name: 'add', runs: 2n }])
  })

  it('applies the requested limits to every connection', async () => {
    const pool = createPool(db.connection, {
      max: 1,
      applicationName: 'limits',
      statementTimeoutMs: 1234,
      lockTimeoutMs: 0,
    })
    const { rows } = await pool.query(
      `SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock,
              current_setting('idle_in_transaction_session_timeout') AS idle, current_setting('application_name') AS name`,
    )
    await pool.end()
    expect(rows).toEqual([{ statement: '1234ms', lock: '0', idle: '5s', name: 'limits' }])
  })

  it('cancels a statement that runs too long', async () => {
    const pool = createPool(db.connection, { max: 1, applicationName: 'slow', statementTimeoutMs: 20 })
    await expect(pool.query('SELECT pg_sleep(60)')).rejects.toMatchObject({ code: '57014' })
    await pool.end()
  })
})

describe('transaction', () => {
  const count = async () => (await db.pool.query('SELECT count(*) FROM note')).rows[0]?.count

  it('commits and returns the result of the work', async () => {
    const before = await count()
    const result = await transaction(db.pool, async sql => {
      await sql.query("INSERT INTO note VALUES (1, 'kept')")
      return 'done'
    })
    expect(result).toBe('done')
    expect(await count()).toBe((before as bigint) + 1n)
  })

  it('rolls back and rethrows when the work throws', async () => {
    const before = await count()
    const failure = new Error('no')
    await expect(
      transaction(db.pool, async sql => {
        await sql.query("INSERT INTO note VALUES (2, 'lost')")
        throw failure
      }),
    ).rejects.toBe(failure)
    expect(await count()).toBe(before)
  })

  it('does not report success when a failed statement was swallowed', async () => {
    const before = await count()
    await expect(
      transaction(db.pool, async sql => {
        await sql.query("INSERT INTO note VALUES (3, 'lost')")
        await sql.query('SELECT 1/0').catch(() => {})
      }),
    ).rejects.toThrow('rolled back')
    expect(await count()).toBe(before)
  })

  it('survives the loss of its connection and gives the pool a new one', async () => {
    const pool = createPool(db.connection, { max: 1, applicationName: 'cut' })
    await expect(
      transaction(pool, async sql => {
        const { rows } = await sql.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
        await db.pool.query('SELECT pg_terminate_backend($1, 5000)', [rows[0]?.pid])
        await sql.query('SELECT 1')
      }),
    ).rejects.toThrow()
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await pool.end()
  })
})

it('reports an idle connection that breaks and replaces it', async () => {
  const broken = Promise.withResolvers<Error>()
  const pool = createPool(db.connection, { max: 1, applicationName: 'idle', onIdleError: broken.resolve })
  const { rows } = await pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  await db.pool.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid])
  expect((await broken.promise).message).toMatch(/terminat/)
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  await pool.end()
})

it('closes a connection that graphile-worker releases in the middle of a statement', async () => {
  const proxy = await startFaultProxy(db.connection)
  const options = { max: 1, applicationName: 'queue', statementTimeoutMs: 50, forQueue: true }
  const pool = createPool(proxy.connection, options)
  const client = await pool.pg.connect()
  proxy.stall()
  await expect(client.query('SELECT 1')).rejects.toThrow('Query read timeout')
  client.release()
  expect(pool.pg.totalCount).toBe(0)
  proxy.pass()
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  await pool.end()
  await proxy.close()
})

it('lets graphile-worker call release after a failed connect', async () => {
  const pool = createPool(db.connection, { max: 1, applicationName: 'queue', connectTimeoutMs: 500, forQueue: true })
  // A busy machine may take longer than this limit to connect.
  const client = await vi.waitFor(() => pool.pg.connect(), { timeout: 60_000 })
  const given = Promise.withResolvers<unknown[]>()
  pool.pg.connect((error, none, release) => {
    release()
    given.resolve([error?.message, none])
  })
  expect(await given.promise).toEqual(['timeout exceeded when trying to connect', undefined])
  client.release()
  await pool.end()
})

describe('withQueryTimeout', () => {
  it('rejects in time and closes the connection that has not answered', async () => {
    const pool = createPool(db.connection, { max: 1, applicationName: 'withQueryTimeout', statementTimeoutMs: 0 })
    await expect(withQueryTimeout(pool, 200).query('SELECT pg_sleep(60)')).rejects.toThrow('no answer within 200 ms')
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await pool.end()
  })

  it('includes the wait for a free connection in the limit', async () => {
    const pool = createPool(db.connection, { max: 1, applicationName: 'withQueryTimeout' })
    const gate = Promise.withResolvers<void>()
    const holding = transaction(pool, () => gate.promise)
    await expect(withQueryTimeout(pool, 200).query('SELECT 1')).rejects.toThrow('no answer within 200 ms')
    gate.resolve()
    await holding
    await pool.end()
  })
})

it('sets the keep-alives with which PostgreSQL notices that this side vanished', async () => {
  // Over the Unix socket of the tests their values read as 0, so check only that they were set.
  const { rows } = await db.pool.query<{ name: string }>(
    "SELECT name FROM pg_settings WHERE name LIKE 'tcp%' AND source = 'client' ORDER BY 1",
  )
  expect(rows.map(({ name }) => name)).toEqual([
    'tcp_keepalives_count',
    'tcp_keepalives_idle',
    'tcp_keepalives_interval',
    'tcp_user_timeout',
  ])
})
