import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { chmod, chown, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { baseBackup } from '../../src/base/db/base-backup.ts'
import { chooseAccount } from '../../src/base/db/embedded-account.ts'
import { tryFileLock } from '../../src/base/db/file-lock.ts'
import { migrate } from '../../src/base/db/migrate.ts'
import { type Connection, type DatabaseHandle, openDatabase } from '../../src/base/db/open-database.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { locatePrograms, runSql } from '../../src/base/db/postgres-programs.ts'
import { acquireServerLock } from '../../src/base/db/server-lock.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import { prepare } from '../../src/start/prepare.ts'
import { createTestDatabase } from '../harness/database.ts'

// Only the owner may enter a directory of mkdtemp. When root runs these tests, PostgreSQL's account cannot
// enter any of them without a capability, as in a clone below /root.
let parent: string
let dataDir: string
const holders: Holder[] = []
const handles: DatabaseHandle[] = []
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'switchyard-embedded-'))
  dataDir = join(parent, 'data')
})
afterEach(async () => {
  for (const holder of holders.splice(0)) await holder.leave()
  for (const handle of handles.splice(0)) await handle.close()
})
afterAll(() => rm(parent, { recursive: true }))

async function open(warnings: string[] = []): Promise<DatabaseHandle> {
  const log = { info() {}, warn: (message: string) => warnings.push(message) }
  const handle = await openDatabase({ dataDir, log })
  handles.push(handle)
  return handle
}

async function query(connection: Connection, sql: string): Promise<Record<string, unknown>[]> {
  const pool = createPool(connection, { max: 1, applicationName: 'test' })
  try {
    return (await pool.query(sql)).rows
  } finally {
    await pool.end()
  }
}

const pidPath = (directory = dataDir) => join(directory, 'postgres', 'postmaster.pid')
const postmaster = () => Number(readFileSync(pidPath(), 'utf8').split('\n')[0])

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(10)
}

interface Holder {
  readonly process: ChildProcess
  readonly startedByUs: boolean
  nextLine(): Promise<unknown>
  kill(): Promise<void>
  leave(): Promise<void>
}

/**
 * Starts test/harness/hold-database.ts in a separate process group and waits until it holds the database
 * open.
 */
async function hold(directory = dataDir, mode = 'wait'): Promise<Holder> {
  const script = fileURLToPath(new URL('../harness/hold-database.ts', import.meta.url))
  const child = spawn(process.execPath, [script, directory, mode], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  })
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const nextLine = async () => JSON.parse((await lines.next()).value ?? 'null')
  const { startedByUs } = await nextLine()
  const holder: Holder = {
    process: child,
    startedByUs,
    nextLine,
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    async leave() {
      child.stdin.end()
      await exited
    },
  }
  holders.push(holder)
  return holder
}

describe('opening and closing', () => {
  it('serves several processes and stops with the last one', async () => {
    const first = await open()
    const second = await hold()
    expect([first.startedByUs, second.startedByUs]).toEqual([true, false])
    await query(first.owner, 'CREATE TABLE kept AS SELECT 7 AS seven')
    await first.close()
    expect(await query(first.owner, 'SELECT seven FROM kept')).toEqual([{ seven: 7 }])
    await second.leave()
    expect(existsSync(pidPath())).toBe(false)
    await expect(query(first.owner, 'SELECT 1')).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('finds all data again at the next start, and may be closed twice', async () => {
    const database = await open()
    expect(database).toMatchObject({ embedded: true, startedByUs: true })
    expect(await query(database.owner, 'SELECT seven FROM kept')).toEqual([{ seven: 7 }])
    await Promise.all([database.close(), database.close()])
    expect(existsSync(pidPath())).toBe(false)
  })

  it('starts once when several processes create the same data directory at the same instant', async () => {
    // This path is also too long for a socket inside it.
    const directory = join(parent, 'a-directory-with-a-name-'.repeat(4), 'data')
    await mkdir(join(directory, 'postgres.new-killed', 'left-by-a-crash'), { recursive: true })
    const all = await Promise.all([hold(directory), hold(directory), hold(directory), hold(directory)])
    expect(all.filter(holder => holder.startedByUs)).toHaveLength(1)
    await Promise.all(all.map(holder => holder.leave()))
    expect(existsSync(pidPath(directory))).toBe(false)
    expect(readdirSync(directory).filter(name => name.startsWith('postgres.new'))).toEqual([])
    const { host } = JSON.parse(await readFile(join(directory, 'postgres.json'), 'utf8'))
    expect(host.startsWith(directory)).toBe(false)
    expect(existsSync(host)).toBe(false)
  })

  it('stops when the last process exits without closing', async () => {
    await hold(dataDir, 'exit')
    await until(() => !existsSync(pidPath()))
  })

  it('survives Ctrl-C, so that the process that uses it can drain first', async () => {
    const holder = await hold()
    process.kill(-(holder.process.pid as number), 'SIGINT')
    expect(await holder.nextLine()).toEqual({ alive: 1 })
  })
})

it('is created although the initdb of a killed start still writes in the same data directory', async () => {
  const directory = join(parent, 'killed-and-started-again')
  await mkdir(directory)
  // Writes like an initdb that never ends, under both possible names of a draft.
  const orphan = spawn('sh', [
    '-c',
    'echo; while :; do mkdir -p "$0/base/1" "$0-killed/base/1"; done',
    join(directory, 'postgres.new'),
  ])
  try {
    await once(orphan.stdout, 'data')
    const database = await openDatabase({ dataDir: directory, log: { info() {}, warn() {} } })
    await database.close()
  } finally {
    orphan.kill('SIGKILL')
    await once(orphan, 'close')
  }
})

it('logs that it waits for a process whose start does not end', async () => {
  await (await open()).close()
  const startLock = tryFileLock(join(dataDir, 'postgres.start.lock'), 'exclusive')!
  const logged = Promise.withResolvers<string>()
  const opened = openDatabase({ dataDir, log: { info: logged.resolve, warn() {} } })
  expect(await logged.promise).toBe(
    `Waiting for another process, which is starting or stopping the PostgreSQL of ${dataDir}`,
  )
  startLock.release()
  handles.push(await opened)
})

it('stops the PostgreSQL that it started when postgres.json cannot be written', async () => {
  const directory = join(parent, 'unwritable')
  // A directory in place of the file fails like a disk that has just become full.
  await mkdir(join(directory, 'postgres.json.new'), { recursive: true })
  const log = { info() {}, warn() {} }
  await expect(openDatabase({ dataDir: directory, log })).rejects.toThrow('EISDIR')
  expect(existsSync(pidPath(directory))).toBe(false)
})

describe('after a crash', () => {
  it('attaches to the PostgreSQL of a killed process, and stops it at the end', async () => {
    const killed = await hold()
    const pid = postmaster()
    await killed.kill()
    const next = await open()
    expect(next.startedByUs).toBe(false)
    expect(postmaster()).toBe(pid)
    await next.close()
    expect(existsSync(pidPath())).toBe(false)
  })

  it('recovers committed data when PostgreSQL was killed as well', async () => {
    const killed = await hold()
    const { owner: connection } = await open()
    await query(connection, 'CREATE TABLE survived AS SELECT 1 AS row')
    process.kill(postmaster(), 'SIGKILL')
    await killed.kill()
    const next = await open()
    expect(next.startedByUs).toBe(true)
    expect(await query(next.owner, 'SELECT * FROM survived')).toEqual([{ row: 1 }])
  })

  it('starts although the process id in postmaster.pid now belongs to another program', async () => {
    await (await hold()).leave()
    await until(() => !existsSync(pidPath()))
    const stale = `${process.pid}\n${join(dataDir, 'postgres')}\n1\n5432\n${dataDir}\n`
    await writeFile(pidPath(), `${stale}\n 0 0\nready\n`)
    await writeFile(join(dataDir, 'postgres', '.s.PGSQL.5432.lock'), stale)
    const next = await open()
    expect(next.startedByUs).toBe(true)
  })

  it('sets a new password when postgres.json is lost, and logs it', async () => {
    await rm(join(dataDir, 'postgres.json'))
    const warnings: string[] = []
    const next = await open(warnings)
    expect(await query(next.owner, 'SELECT seven FROM kept')).toEqual([{ seven: 7 }])
    expect(warnings.join()).toContain('postgres.json is missing')
  })

  it('gets the right to make backups with its new passwords, if an earlier version created it', async () => {
    await (await open()).close()
    const programs = locatePrograms()
    const cluster = join(dataDir, 'postgres')
    await runSql(chooseAccount(cluster, [programs]), programs, cluster, 'ALTER ROLE switchyard NOREPLICATION;\n')
    const backUp = (owner: Connection) => buffer(baseBackup(owner, () => {}))
    const old = await open()
    await expect(backUp(old.owner)).rejects.toThrow(/created by an earlier version.* delete postgres\.json/)
    await old.close()
    await rm(join(dataDir, 'postgres.json'))
    expect((await backUp((await open()).owner)).toString('latin1')).toContain('backup_label')
  })

  it('gets the desk role at its next start, if an earlier version created it', async () => {
    await (await open()).close()
    const programs = locatePrograms()
    const cluster = join(dataDir, 'postgres')
    await runSql(chooseAccount(cluster, [programs]), programs, cluster, 'DROP ROLE switchyard_desk;\n')
    const access = join(cluster, 'pg_hba.conf')
    await writeFile(access, (await readFile(access, 'utf8')).replace(/^local all switchyard_desk .*\n/m, ''))
    const file = join(dataDir, 'postgres.json')
    const { deskUser, deskPassword, ...old } = JSON.parse(await readFile(file, 'utf8'))
    expect([deskUser, deskPassword]).toEqual(['switchyard_desk', expect.any(String)])
    await writeFile(file, JSON.stringify(old))
    for (let start = 0; start < 2; start++) {
      const { desk, close } = await open()
      expect(await query(desk, 'SELECT session_user AS role')).toEqual([{ role: 'switchyard_desk' }])
      await close()
    }
  })

  it('says what to do when postgres.json is lost while PostgreSQL runs', async () => {
    await open()
    await rm(join(dataDir, 'postgres.json'))
    await expect(open()).rejects.toThrow(/postgres.json is missing.*Stop/)
  })
})

describe('a copy of the data directory, while the original runs', () => {
  const log = { info() {}, warn() {} }

  // A long path has no room for a socket, so the sockets of both are in the system's temporary directory.
  it.each(['short', 'long'.padEnd(90, '-')])('is a separate database: %s', async name => {
    const first = await open()
    await query(first.owner, 'CREATE TABLE IF NOT EXISTS copied AS SELECT 7 AS seven')
    await first.close()
    const original = await copy(dataDir, name)
    const running = await openDatabase({ dataDir: original, log })
    handles.push(running)
    const copied = await copy(dataDir, `${name}-copy`)
    // A snapshot contains these: the login, and the process id of the running PostgreSQL.
    for (const file of ['postgres.json', 'postgres/postmaster.pid', 'postgres/.s.PGSQL.5432.lock'])
      if (existsSync(join(original, file))) await cp(join(original, file), join(copied, file), { force: true })

    const other = await openDatabase({ dataDir: copied, log })
    handles.push(other)
    expect(other.startedByUs).toBe(true)
    await query(other.owner, 'UPDATE copied SET seven = 8')
    await other.close()
    expect(await query(running.owner, 'SELECT seven FROM copied')).toEqual([{ seven: 7 }])
  })

  async function copy(from: string, name: string): Promise<string> {
    const to = join(parent, name)
    await cp(from, to, { recursive: true })
    for (const path of readdirSync(from, { recursive: true, encoding: 'utf8' })) {
      const { uid, gid, mode } = statSync(join(from, path))
      await chown(join(to, path), uid, gid)
      await chmod(join(to, path), mode)
    }
    return to
  }
})

describe('access', () => {
  it('needs the password from a file that only its owner can read, and no network address is open', async () => {
    const { connection } = await open()
    expect(await query(connection, "SELECT current_setting('listen_addresses') AS addresses")).toEqual([
      { addresses: '' },
    ])
    expect(await query(connection, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user')).toEqual([
      { rolsuper: false },
    ])
    await expect(query({ ...connection, password: 'guess' }, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' })
    await expect(query({ ...connection, user: 'postgres' }, 'SELECT 1')).rejects.toMatchObject({ code: '28000' })
    expect(statSync(join(dataDir, 'postgres.json')).mode & 0o777).toBe(0o600)
    expect(statSync(join(dataDir, 'postgres')).mode & 0o777).toBe(0o700)
  })

  it('keeps committed data through a power cut', async () => {
    const { connection } = await open()
    expect(
      await query(
        connection,
        "SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commit, current_setting('full_page_writes') AS pages",
      ),
    ).toEqual([{ fsync: 'on', commit: 'on', pages: 'on' }])
  })

  it('refuses a second server, names the first, and accepts the next one when the first is gone', async () => {
    const first = await hold(dataDir, 'serve')
    const database = await open()
    await expect(acquireServerLock(database.connection)).rejects.toThrow(
      `Another Switchyard server (process ${first.process.pid}, since `,
    )
    await first.kill()
    const lock = await acquireWhenFree(database.connection)
    await expect(acquireServerLock(database.connection)).rejects.toThrow(`(process ${process.pid}, since `)
    await lock.release()
    await (await acquireWhenFree(database.connection)).release()
  })

  // After an upgrade the running server may be the older version, and its statements need the old tables.
  it('is not migrated by a second server that is refused', async () => {
    const first = await hold(dataDir, 'serve')
    const config = loadConfig({ env: { SWITCHYARD_DATA: dataDir }, cwd: parent })
    await expect(
      prepare({
        config,
        readAgain: () => config,
        log: pino({ level: 'silent' }),
        connections: 0,
        isStopping: () => false,
        onLost() {},
      }),
    ).rejects.toThrow(`Another Switchyard server (process ${first.process.pid}, since `)
    const database = await open()
    expect(await query(database.connection, "SELECT to_regclass('migration') AS found")).toEqual([{ found: null }])
  })

  it('notifies the server when it lost its lock', async () => {
    const database = await open()
    const lost = Promise.withResolvers<Error>()
    await acquireServerLock(database.connection, lost.resolve)
    await query(
      database.connection,
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'switchyard server %'",
    )
    expect((await lost.promise).message).toMatch(/terminat/)
  })

  /** PostgreSQL needs a moment to notice that a connection is gone. */
  async function acquireWhenFree(connection: Connection) {
    for (;;) {
      const lock = await acquireServerLock(connection).catch(() => undefined)
      if (lock) return lock
    }
  }
})

describe('a PostgreSQL given by URL', () => {
  const log = { info() {}, warn() {} }

  it('is used without changes and left running', async () => {
    const db = await createTestDatabase()
    const { user, password, host, database } = db.connection
    const databaseUrl = `postgres://${user}:${password}@/${database}?host=${encodeURIComponent(String(host))}`
    const given = await openDatabase({ databaseUrl, dataDir, log })
    expect(given).toMatchObject({ embedded: false, startedByUs: false })
    expect(await query(given.connection, 'SELECT current_database() AS name')).toEqual([{ name: database }])
    await given.close()
    expect((await db.pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await db.drop()
  })

  it('runs no statement while it is a standby, whose data may be old', async () => {
    // The PostgreSQL of the tests above becomes a standby without a primary.
    await writeFile(join(dataDir, 'postgres', 'standby.signal'), '')
    const { owner: connection } = await open()
    const pool = createPool(connection, { max: 1, applicationName: 'failover' })
    await expect(pool.query('SELECT 1')).rejects.toThrow('This PostgreSQL is a standby')
    await expect(migrate(connection)).rejects.toThrow('it is a standby')
    await writeFile(join(dataDir, 'postgres', 'promote'), '')
    process.kill(postmaster(), 'SIGUSR1')
    await until(() => !existsSync(join(dataDir, 'postgres', 'standby.signal')))
    const answer = await firstAnswer(() => pool.query('SELECT pg_is_in_recovery() AS standby'))
    expect(answer.rows).toEqual([{ standby: false }])
    await pool.end()
  })

  async function firstAnswer<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      const answer = await ask().catch(() => undefined)
      if (answer !== undefined) return answer
    }
  }

  it.each([
    ['postgres://me:hush@127.0.0.1:1/x', 'PostgreSQL is not listening at that address.'],
    ['postgres://me:hush@no-such-host.invalid/x', 'does not resolve'],
    ['no url, hush', 'Check DATABASE_URL'],
    ['postgres://me:hu#sh@127.0.0.1:1/x', 'Percent-encode the password'],
    ['postgres://me:hush@127.0.0.1:1,127.0.0.1:2/x', 'name only one host'],
  ])('says what is wrong with %s without repeating the password', async (databaseUrl, reason) => {
    const failure = await openDatabase({ databaseUrl, dataDir, log }).catch((error: Error) => error.message)
    expect(failure).toContain(reason)
    expect(failure).toContain('Check DATABASE_URL')
    expect(failure).not.toContain('hush')
  })
})
