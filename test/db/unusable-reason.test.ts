import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { describe, expect, it } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import { unusableReason } from '../../src/base/db/unusable-reason.ts'
import { createTestDatabase } from '../harness/database.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase()

it('accepts a PostgreSQL that applies our session settings over those of its database', async () => {
  const { database } = db.connection
  for (const name of ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'])
    await db.pool.query(`ALTER DATABASE ${database} SET ${name} = '7s'`)
  expect(await unusableReason(db.connection)).toBeUndefined()
  const pool = createPool(db.connection, { max: 1, applicationName: 'audit', statementTimeoutMs: 0, lockTimeoutMs: 0 })
  const { rows } = await pool.query(
    "SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock",
  )
  await pool.end()
  expect(rows).toEqual([{ statement: '0', lock: '0' }])
})

it('accepts a DATABASE_URL that sets options', async () => {
  expect(await unusableReason({ ...db.connection, options: '-c work_mem=8MB' })).toBeUndefined()
})

it('refuses a version that is too old', async () => {
  const db = await createTestDatabase()
  await db.pool.query(`
    CREATE FUNCTION current_setting(text) RETURNS text LANGUAGE sql AS $$
      SELECT CASE $1 WHEN 'server_version' THEN '13.4' WHEN 'server_version_num' THEN '130004' ELSE pg_catalog.current_setting($1) END
    $$;
    ALTER DATABASE ${db.connection.database} SET search_path = public, pg_catalog`)
  expect(await unusableReason(db.connection)).toBe('PostgreSQL 13.4 is too old: Switchyard needs version 14 or newer.')
  await db.drop()
})

it('refuses a transaction_timeout and names the statement that removes it', async () => {
  const limited = await createTestDatabase()
  const { database } = limited.connection
  await limited.pool.query(`ALTER DATABASE ${database} SET transaction_timeout = '1h'`)
  const refusal = (await unusableReason(limited.connection)) ?? ''
  expect(refusal).toContain('transaction_timeout is 1h')
  await limited.pool.query(refusal.slice(refusal.indexOf('ALTER ROLE')))
  expect(await unusableReason(limited.connection)).toBeUndefined()
  await limited.drop()
})

it.each(['LATIN1', 'SQL_ASCII'])('refuses a database with the encoding %s', async encoding => {
  const database = `${db.connection.database}_${encoding.toLowerCase()}`
  await db.pool.query(
    `CREATE DATABASE ${database} ENCODING '${encoding}' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0`,
  )
  expect(await unusableReason({ ...db.connection, database })).toContain(`has the encoding ${encoding}`)
  await db.pool.query(`DROP DATABASE ${database} WITH (FORCE)`)
})

describe('a pooler', () => {
  it.each(['refuses', 'drops'] as const)('that %s the settings of a session', async does => {
    const pooler = await startPooler(does)
    const { port } = pooler.address() as AddressInfo
    const reason = await unusableReason({ ...db.connection, host: '127.0.0.1', port })
    expect(reason).toMatch(/DATABASE_URL points to a pooler.*set DATABASE_URL to the address of PostgreSQL itself/)
    pooler.close()
  })

  /**
   * Handles the first packet as PgBouncer does by default (`refuses`) or with `ignore_startup_parameters`
   * (`drops`), and forwards the rest.
   */
  async function startPooler(does: 'refuses' | 'drops'): Promise<Server> {
    const server = createServer(socket => {
      socket.on('error', () => {})
      socket.once('data', (first: Buffer) => {
        // Length, version of the protocol, then names and values, each ended by a zero.
        const texts = first.subarray(8).toString().split('\0')
        const pairs = Array.from({ length: ((texts.length - 1) / 2) | 0 }, (_, at) => texts.slice(2 * at, 2 * at + 2))
        const known = pairs.filter(([name]) =>
          ['user', 'database', 'client_encoding', 'application_name'].includes(name!),
        )
        if (does === 'refuses' && known.length < pairs.length) {
          socket.end(packet('E', 'SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter\0\0'))
          return
        }
        const { host, port } = db.connection
        const behind = connect(`${host}/.s.PGSQL.${port}`)
        behind.on('error', () => socket.destroy())
        socket.on('close', () => behind.destroy())
        behind.write(packet('', `\0\x03\0\0${known.flat().join('\0')}\0\0`))
        socket.pipe(behind).pipe(socket)
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    return server
  }

  function packet(type: string, body: string): Buffer {
    const length = Buffer.alloc(4)
    length.writeInt32BE(Buffer.byteLength(body) + 4)
    return Buffer.concat([Buffer.from(type), length, Buffer.from(body)])
  }
})
