import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import pg from 'pg'
import { expect, test } from 'vitest'
import { MIGRATION_LOCK } from '../../src/base/db/migrate.ts'
import { createTestDatabase } from '../harness/database.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { startGatewayProcess } from '../nodes/gateway-process.ts'
import { databaseUrl, runCli, sourceProgram } from './run-cli.ts'

const database = useTestDatabase()

async function emptyDirectory(undo: AsyncDisposableStack): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-start-'))
  undo.defer(() => rm(directory, { recursive: true }))
  return directory
}

test('a start on a taken port fails before it creates a database', async () => {
  await using undo = new AsyncDisposableStack()
  const cwd = await emptyDirectory(undo)
  const other = createServer((_, response) => response.end('another program')).listen(0, '127.0.0.1')
  undo.defer(() => void other.close())
  await new Promise(resolve => other.once('listening', resolve))
  const { port } = other.address() as AddressInfo
  for (const workers of ['1', '2']) {
    const { code, stderr } = await runCli(['start', '--port', String(port), '--workers', workers], { cwd })
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: `Port ${port} on 127.0.0.1 is taken by another program. Choose another port with --port or PORT.\n`,
    })
  }
  expect(await readdir(cwd)).toEqual([])
})

test('a data directory that cannot be created is refused', async () => {
  await using undo = new AsyncDisposableStack()
  const cwd = await emptyDirectory(undo)
  for (const env of [{}, { DATABASE_URL: databaseUrl(database.connection) }]) {
    const refusal = async (path: string) => {
      const { code, stderr } = await runCli(['start', '--port', '0'], { cwd, env: { ...env, SWITCHYARD_DATA: path } })
      // Warnings about the database may come before.
      return { code, message: stderr.split('\n').at(-2) }
    }
    const refused = (path: string, reason: string) => ({
      code: 1,
      message: `Cannot create the data directory ${path}: ${reason}. Set SWITCHYARD_DATA to another directory.`,
    })
    // With a database elsewhere, the first file of the directory is the master key.
    expect(await refusal('/proc/switchyard')).toEqual(refused('/proc/switchyard', '/proc takes no new directories'))
  }
  const doctor = await runCli(['doctor', '--json'], { cwd, env: { SWITCHYARD_DATA: '/proc/switchyard', PORT: '0' } })
  expect(JSON.parse(doctor.stdout).checks).toContainEqual({
    check: 'data directory',
    ok: false,
    detail: 'This user cannot write to /proc. Set SWITCHYARD_DATA to another directory.',
  })
})

test.each(['1', '2'])(
  'a signal before the start is complete prints no address and no key; workers: %s',
  async workers => {
    await using undo = new AsyncDisposableStack()
    const directory = await emptyDirectory(undo)
    const unused = await createTestDatabase()
    undo.defer(() => unused.drop())
    // Where the start would look for models.
    let contacts = 0
    const server = createServer((_, response) => {
      contacts++
      response.end('{}')
    }).listen(0, '127.0.0.1')
    undo.defer(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await writeFile(join(directory, 'switchyard.yaml'), `detect: { ports: [${port}] }\n`)
    // The start waits for the migration lock.
    const lock = new pg.Client(unused.connection)
    await lock.connect()
    undo.defer(() => lock.end())
    await lock.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    const gateway = spawn(sourceProgram[0]!, [sourceProgram[1]!, 'start', '--port', '0', '--workers', workers], {
      cwd: directory,
      env: {
        PATH: process.env.PATH!,
        DATABASE_URL: databaseUrl(unused.connection),
        METRICS_PORT: '0',
        LOG_LEVEL: 'info',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    undo.defer(() => void gateway.kill('SIGKILL'))
    const exit = once(gateway, 'exit')
    const printed = text(gateway.stdout)
    const lines: string[] = []
    for await (const line of createInterface({ input: gateway.stderr })) {
      lines.push(line)
      if (line.includes('waiting for another process that is migrating')) gateway.kill('SIGINT')
      if (line.includes('stopping before the start is complete')) await lock.query('SELECT pg_advisory_unlock_all()')
    }
    expect(await printed).toBe('')
    expect(contacts).toBe(0)
    expect(await exit, lines.join('\n')).toEqual([0, null])
    // At the exit, the log may write its last lines in another order.
    expect(lines).toContainEqual(expect.stringContaining('"msg":"stopped"'))
    const { rows } = await unused.pool.query('SELECT count(*)::integer AS customers FROM customer')
    expect(rows).toEqual([{ customers: 0 }])
  },
)

test.each(['1', '2'])('commands know the port that the server got at its start; workers: %s', async workers => {
  await using undo = new AsyncDisposableStack()
  const directory = await emptyDirectory(undo)
  const env = { DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_DATA: directory }
  const gateway = await startGatewayProcess({ directory, env, args: ['--port', '0', '--workers', workers] })
  undo.defer(async () => void (await gateway.stop()))
  // Without a running server, the check is about the configured port.
  const portCheck = async () => {
    const { stdout } = await runCli(['doctor', '--json'], { cwd: directory, env: { ...env, PORT: '0' } })
    return JSON.parse(stdout).checks.find(({ check }: { check: string }) => check === 'port')
  }
  expect(await portCheck()).toEqual({ check: 'port', ok: true, detail: `a Switchyard server runs at ${gateway.url}` })
  gateway.signal('SIGTERM')
  expect(await gateway.ended).toBe(0)
  expect(await portCheck()).toMatchObject({ detail: 'the system chooses a free port at the start' })
})

// Node has no datagram sockets between processes, so a program of systemd sends the messages. This one writes them to a file.
test.each(['1', '2'])('systemd hears of each step; workers: %s', async workers => {
  await using undo = new AsyncDisposableStack()
  const directory = await emptyDirectory(undo)
  const unused = await createTestDatabase()
  undo.defer(() => unused.drop())
  const messages = join(directory, 'messages')
  await writeFile(join(directory, 'systemd-notify'), `#!/bin/sh\necho "$*" >>"${messages}"\n`, { mode: 0o755 })
  await writeFile(join(directory, 'switchyard.yaml'), 'detect: { enabled: false }\ndemo: { enabled: false }\n')
  const gateway = await startGatewayProcess({
    directory,
    args: ['--workers', workers],
    env: {
      PATH: `${directory}:${process.env.PATH}`,
      DATABASE_URL: databaseUrl(unused.connection),
      NOTIFY_SOCKET: '/run/systemd/notify',
      WATCHDOG_USEC: '100000',
    },
  })
  undo.defer(async () => void (await gateway.stop()))
  const heard = async () =>
    (await readFile(messages, 'utf8').catch(() => '')).split('\n').map(line => line.split(' ')[0])
  await expect.poll(heard, { timeout: 30_000 }).toContain('WATCHDOG=1')
  expect((await heard())[0]).toBe('READY=1')
  gateway.signal('SIGHUP')
  const readies = async () => (await heard()).filter(line => line === 'READY=1').length
  await expect.poll(readies, { timeout: 30_000 }).toBe(2)
  expect(await heard()).toContain('RELOADING=1')
  expect(await heard()).not.toContain('STOPPING=1')
  gateway.signal('SIGINT')
  expect(await gateway.ended).toBe(0)
  await expect.poll(heard, { timeout: 30_000 }).toContain('STOPPING=1')
})

test('a gateway without systemd-notify serves, and says so once', async () => {
  await using undo = new AsyncDisposableStack()
  const directory = await emptyDirectory(undo)
  const unused = await createTestDatabase()
  undo.defer(() => unused.drop())
  await writeFile(join(directory, 'switchyard.yaml'), 'detect: { enabled: false }\ndemo: { enabled: false }\n')
  const env = {
    DATABASE_URL: databaseUrl(unused.connection),
    NOTIFY_SOCKET: '/run/systemd/notify',
    WATCHDOG_USEC: '50000',
  }
  await writeFile(join(directory, 'systemd-notify'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
  const gateway = await startGatewayProcess({ directory, env: { ...env, PATH: `${directory}:${process.env.PATH}` } })
  undo.defer(async () => void (await gateway.stop()))
  await gateway.logged(({ msg }) => msg.startsWith('`systemd-notify` failed'))
  expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200)
  expect(await gateway.stop()).toBe(0)
  expect(gateway.log.filter(({ msg }) => msg.startsWith('`systemd-notify` failed'))).toHaveLength(1)
})

test('migrate brings a database to this version and starts nothing', async () => {
  await using undo = new AsyncDisposableStack()
  const directory = await emptyDirectory(undo)
  const empty = await createTestDatabase()
  undo.defer(() => empty.drop())
  await empty.pool.query('DROP SCHEMA public CASCADE')
  await empty.pool.query('CREATE SCHEMA public')
  const env = { DATABASE_URL: databaseUrl(empty.connection), SWITCHYARD_DATA: directory }
  const first = await runCli(['migrate', '--json'], { cwd: directory, env })
  expect(first.code).toBe(0)
  expect(JSON.parse(first.stdout).applied).toEqual(
    expect.arrayContaining(['0001_tables.sql', 'the functions of this version']),
  )
  expect(await runCli(['migrate', '--json'], { cwd: directory, env })).toMatchObject({
    code: 0,
    stdout: '{"applied":[]}\n',
  })
  expect((await empty.pool.query('SELECT count(*)::int AS customers FROM customer')).rows).toEqual([{ customers: 0 }])
})
