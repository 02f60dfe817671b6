import { describe, expect, it } from 'vitest'
import { durabilityWarnings } from '../../src/base/db/durability.ts'
import { type Connection, openDatabase } from '../../src/base/db/open-database.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { databaseUrl } from '../cli/run-cli.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase()

/** The value of a setting in a session of a pool. */
async function settingIn(connection: Connection, name: string): Promise<unknown> {
  const pool = createPool(connection, { max: 1, applicationName: 'durability' })
  const { rows } = await pool.query('SELECT current_setting($1) AS value', [name])
  await pool.end()
  return rows[0]!.value
}

describe('synchronous_commit', () => {
  it('is on in our sessions, whatever the role and the database set', async () => {
    const { database, user } = db.connection
    await db.pool.query(`ALTER DATABASE ${database} SET synchronous_commit = off`)
    await db.pool.query(`ALTER ROLE ${user} IN DATABASE ${database} SET synchronous_commit = off`)
    expect(await settingIn(db.connection, 'synchronous_commit')).toBe('on')
  })

  it('is on although the options of DATABASE_URL turn it off, and the other options apply', async () => {
    const url = new URL(databaseUrl(db.connection))
    url.searchParams.set('options', '-c synchronous_commit=off -c work_mem=8MB')
    const log = { info() {}, warn() {} }
    const { connection, close } = await openDatabase({ databaseUrl: url.href, dataDir: '/nowhere', log })
    expect(await settingIn(connection, 'synchronous_commit')).toBe('on')
    expect(await settingIn(connection, 'work_mem')).toBe('8MB')
    // Would be lost too if the options replaced ours.
    expect(await settingIn(connection, 'extra_float_digits')).toBe('1')
    await close()
  })
})

describe('warnings', () => {
  it('name what is off and how to change it', async () => {
    // The PostgreSQL of the tests runs without both.
    expect((await durabilityWarnings(db.pool)).map(({ text }) => text)).toEqual([
      expect.stringMatching(/^fsync is off: .*Set fsync = on/),
      expect.stringMatching(/^full_page_writes is off: .*Set full_page_writes = on/),
    ])
  })

  it.each([
    ['on', []],
    ['remote_apply', []],
    ['local', [expect.stringMatching(/^synchronous_commit is local/)]],
    ['off', [expect.stringMatching(/^synchronous_commit is off/)]],
  ])('judge the session itself: synchronous_commit = %s', async (value, expected) => {
    const pool = createPool(db.connection, { max: 1, applicationName: 'durability' })
    // As a proxy would.
    await pool.query(`SET synchronous_commit = ${value}`)
    const warnings = (await durabilityWarnings(pool)).map(({ text }) => text)
    await pool.end()
    expect(warnings.filter(warning => warning.startsWith('synchronous_commit'))).toEqual(expected)
  })
})
