import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { inspectServer } from '../../src/base/db/inspect-server.ts'
import type { Connection } from '../../src/base/db/open-database.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { createTestDatabase } from '../harness/database.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase()
const problemOf = async (connection: Connection) => (await inspectServer(connection)).problem

it('accepts a PostgreSQL that applies our session settings over those of its database', async () => {
  const { database } = db.connection
  for (const name of ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'])
    await db.pool.query(`ALTER DATABASE ${database} SET ${name} = '7s'`)
  expect(await inspectServer(db.connection)).toEqual({ problem: undefined, viaPooler: false })
  const pool = createPool(db.connection, { max: 1, applicationName: 'audit', statementTimeoutMs: 0, lockTimeoutMs: 0 })
  const { rows } = await pool.query(
    "SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock",
  )
  await pool.end()
  expect(rows).toEqual([{ statement: '0', lock: '0' }])
})

it('accepts a DATABASE_URL that sets options', async () => {
  expect(await problemOf({ ...db.connection, options: '-c work_mem=8MB' })).toBeUndefined()
})

it('refuses a version that is too old', async () => {
  const db = await createTestDatabase()
  await db.pool.query(`
    CREATE FUNCTION current_setting(text) RETURNS text LANGUAGE sql AS $$
      SELECT CASE $1 WHEN 'server_version' THEN '13.4' WHEN 'server_version_num' THEN '130004' ELSE pg_catalog.current_setting($1) END
    $$;
    ALTER DATABASE ${db.connection.database} SET search_path = public, pg_catalog`)
  expect(await problemOf(db.connection)).toBe('PostgreSQL 13.4 is too old: Switchyard needs version 14 or newer.')
  await db.drop()
})

it('refuses a transaction_timeout and names the statement that removes it', async () => {
  const limited = await createTestDatabase()
  const { database } = limited.connection
  await limited.pool.query(`ALTER DATABASE ${database} SET transaction_timeout = '1h'`)
  const refusal = (await problemOf(limited.connection)) ?? ''
  expect(refusal).toContain('transaction_timeout is 1h')
  await limited.pool.query(refusal.slice(refusal.indexOf('ALTER ROLE')))
  expect(await problemOf(limited.connection)).toBeUndefined()
  await limited.drop()
})

it.each(['LATIN1', 'SQL_ASCII'])('refuses a database with the encoding %s', async encoding => {
  const database = `${db.connection.database}_${encoding.toLowerCase()}`
  await db.pool.query(
    `CREATE DATABASE ${database} ENCODING '${encoding}' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0`,
  )
  expect(await problemOf({ ...db.connection, database })).toContain(`has the encoding ${encoding}`)
  await db.pool.query(`DROP DATABASE ${database} WITH (FORCE)`)
})

describe('a pooler', () => {
  it.each(['refuses', 'drops'] as const)(
    'that %s the settings of a session is used if it gives each connection its own',
    async does => {
      await using pooler = await startPooler({ does, mode: 'session' })
      expect(await inspectServer(pooler.connection)).toEqual({ problem: undefined, viaPooler: true })
    },
  )

  it('in session mode gives each connection of a pool its settings', async () => {
    await using pooler = await startPooler({ does: 'refuses', mode: 'session' })
    const pool = createPool(
      { ...pooler.connection, viaPooler: true },
      { max: 1, applicationName: 'switchyard', lockTimeoutMs: 1_234, osUser: 'ada' },
    )
    const { rows } = await pool.query(
      "SELECT current_setting('lock_timeout') AS lock, current_setting('jit') AS jit, current_setting('switchyard.os_user') AS user",
    )
    await pool.end()
    expect(rows).toEqual([{ lock: '1234ms', jit: 'off', user: 'ada' }])
  })

  it.each(['refuses', 'drops'] as const)(
    'that %s the settings of a session is refused in transaction mode',
    async does => {
      await using pooler = await startPooler({ does, mode: 'transaction' })
      expect(await problemOf(pooler.connection)).toMatch(
        /^DATABASE_URL points to a pooler.*shares the sessions.*set pool_mode = session.*or set DATABASE_URL to the address of PostgreSQL itself/,
      )
    },
  )

  it('that does not reset a session for the next connection is refused', async () => {
    await using pooler = await startPooler({ does: 'drops', mode: 'no reset' })
    expect(await problemOf(pooler.connection)).toContain('set server_reset_query = DISCARD ALL')
  })
})

/**
 * Handles the first packet as PgBouncer does by default (`refuses`) or with `ignore_startup_parameters` (`drops`). In
 * session mode each connection gets a session of its own. In transaction mode all get the session of the first, and with
 * `no reset` a connection gets the session of one that has ended.
 */
async function startPooler({
  does,
  mode,
}: {
  does: 'refuses' | 'drops'
  mode: 'session' | 'transaction' | 'no reset'
}) {
  const idle: Session[] = []
  const sessions: Session[] = []
  const server = createServer(client => {
    client.on('error', () => {})
    client.once('data', (first: Buffer) => {
      // Length, version of the protocol, then names and values, each ended by a zero.
      const texts = first.subarray(8).toString().split('\0')
      const pairs = Array.from({ length: ((texts.length - 1) / 2) | 0 }, (_, at) => texts.slice(2 * at, 2 * at + 2))
      const known = pairs.filter(([name]) =>
        ['user', 'database', 'client_encoding', 'application_name'].includes(name!),
      )
      if (does === 'refuses' && known.length < pairs.length) {
        client.end(packet('E', 'SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter\0\0'))
        return
      }
      const former = mode === 'transaction' ? sessions[0] : idle.pop()
      const session = former ?? { socket: connect(`${db.connection.host}/.s.PGSQL.${db.connection.port}`), client }
      if (former === undefined) {
        sessions.push(session)
        session.socket.on('error', () => {})
        session.socket.on('data', bytes => session.client.write(bytes))
        session.socket.write(packet('', `\0\x03\0\0${known.flat().join('\0')}\0\0`))
      } else client.write(Buffer.concat([packet('R', '\0\0\0\0'), packet('Z', 'I')]))
      session.client = client
      client.on('data', bytes => {
        if (bytes[0] === TERMINATE) return
        session.client = client
        session.socket.write(bytes)
      })
      client.on('close', () => {
        if (mode === 'session') session.socket.destroy()
        else idle.push(session)
      })
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    connection: { ...db.connection, host: '127.0.0.1', port },
    async [Symbol.asyncDispose]() {
      for (const { socket } of sessions) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

interface Session {
  readonly socket: Socket
  /** Gets the answers. */
  client: Socket
}

/** The type of the message with which a client ends its session. */
const TERMINATE = 'X'.charCodeAt(0)

function packet(type: string, body: string): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(Buffer.byteLength(body) + 4)
  return Buffer.concat([Buffer.from(type), length, Buffer.from(body)])
}
