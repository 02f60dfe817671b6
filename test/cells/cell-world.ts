import { randomBytes } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Logger, runMigrations } from 'graphile-worker'
import { embeddedCluster, newLogin } from '../../src/base/db/embedded-cluster.ts'
import { grantGatewayRights } from '../../src/base/db/gateway-role.ts'
import { migrate } from '../../src/base/db/migrate.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { SOCKET_PORT } from '../../src/base/db/postgres-socket.ts'
import { type CliRun, databaseUrl, runCli, runInProcess } from '../cli/run-cli.ts'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import { PATIENT, type TestDatabase } from '../harness/database.ts'
import { type ScriptedUpstream, startScriptedUpstream } from '../harness/scripted-upstream.ts'

/** A whole PostgreSQL with logical replication, and one gateway. */
export interface Cell {
  readonly name: string
  readonly database: TestDatabase
  /** Of the owner. */
  readonly databaseUrl: string
  readonly app: TestApp
  readonly upstream: ScriptedUpstream
  /** What the other cells connect to. */
  readonly front: Front
  /** Runs a command of this cell: in a process of its own with failpoints, else in this one. */
  cli(args: readonly string[], failpoints?: string): Promise<CliRun>
}

export interface CellWorld {
  readonly a: Cell
  readonly b: Cell
  close(): Promise<void>
}

const CELL_SECRET = 'the-secret-of-all-cells-only-for-tests'

/** Starts two linked cells, `a` and `b`. */
export async function startCellWorld(): Promise<CellWorld> {
  await using started = new AsyncDisposableStack()
  const masterKey = randomBytes(32)
  const parts = []
  for (const name of ['a', 'b'] as const) {
    const database = await startDatabase()
    started.defer(() => database.drop())
    const front = await startFront()
    started.defer(() => front.close())
    parts.push({ name, database, front, databaseUrl: databaseUrl(database.connection) })
  }
  const peers = parts.map(
    ({ name, front, databaseUrl }) => `{ name: ${name}, url: "${front.url}", database_url: "${databaseUrl}" }`,
  )
  const cells: Cell[] = []
  for (const part of parts) {
    const upstream = await startScriptedUpstream()
    started.defer(() => upstream.close())
    const yaml = `cells: { name: ${part.name}, secret: ${CELL_SECRET}, peers: [${peers.join(', ')}] }`
    const directory = await mkdtemp(join(tmpdir(), 'switchyard-cell-'))
    started.defer(() => rm(directory, { recursive: true, force: true }))
    await writeFile(join(directory, 'switchyard.yaml'), yaml)
    const cli = (args: readonly string[], failpoints?: string) => {
      const env = { DATABASE_URL: part.databaseUrl, SWITCHYARD_DATA: directory }
      return failpoints === undefined
        ? runInProcess(args, { cwd: directory, env })
        : runCli(args, { cwd: directory, env: { ...env, SWITCHYARD_FAILPOINTS: failpoints } })
    }
    await link(cli)
    const offers = [testOffer(upstream.baseUrl, { endpoint: { endpointId: `server-of-${part.name}` } })]
    const app = await startTestApp({ database: part.database, masterKey, yaml, offers })
    started.defer(() => app.close())
    part.front.leadTo(app.url)
    cells.push({ ...part, upstream, cli, app })
  }
  // The first cell was linked when the second published nothing yet.
  await link(cells[0]!.cli)
  const running = started.move()
  return { a: cells[0] as Cell, b: cells[1] as Cell, close: () => running.disposeAsync() }
}

async function link(cli: Cell['cli']): Promise<void> {
  const { code, stderr } = await cli(['cell', 'link'])
  if (code !== 0) throw new Error(stderr)
}

/** A port that is known before the gateway behind it has one. */
export interface Front {
  readonly url: string
  leadTo(url: string): void
  /** Refuses connections from now on; open ones end. */
  close(): Promise<void>
}

async function startFront(): Promise<Front> {
  let port = 0
  const sockets = new Set<{ destroy(): void }>()
  const server = createServer(client => {
    const behind = connect(port, '127.0.0.1')
    for (const socket of [client, behind]) {
      sockets.add(socket)
      socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    }
    client.pipe(behind).pipe(client)
    client.on('close', () => behind.destroy())
    behind.on('close', () => client.destroy())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    leadTo(url) {
      port = Number(new URL(url).port)
    },
    async close() {
      if (!server.listening) return
      const closed = new Promise(resolve => server.close(resolve))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Starts a PostgreSQL of its own: cells replicate, and the server that tests share does not. */
async function startDatabase(): Promise<TestDatabase> {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-cell-'))
  const cluster = embeddedCluster(directory)
  const login = newLogin()
  await cluster.create(login)
  appendFileSync(join(cluster.directory, 'pg_hba.conf'), 'local all postgres trust\n')
  process.once('exit', () => cluster.requestStop())
  const settings = { wal_level: 'logical', fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' }
  const server = { host: await cluster.start(settings), port: SOCKET_PORT, database: login.database }
  const connection = { ...server, user: login.user, password: login.password }
  const gatewayConnection = { ...server, user: login.gatewayUser, password: login.gatewayPassword }
  const deskConnection = { ...server, user: login.deskUser, password: login.deskPassword }
  const superuser = createPool({ ...server, user: 'postgres' }, { max: 1, applicationName: 'test setup' })
  await superuser.query(`GRANT pg_create_subscription TO ${login.user}`)
  await superuser.end()
  await migrate(connection)
  await grantGatewayRights({ owner: connection, connection: gatewayConnection, desk: deskConnection })
  const queue = createPool(gatewayConnection, { ...PATIENT, max: 1, applicationName: 'test setup' })
  await runMigrations({ pgPool: queue.pg, logger: new Logger(() => () => {}) })
  await queue.end()
  const pool = createPool(connection, { ...PATIENT, max: 10, applicationName: 'test of cells' })
  return {
    connection,
    gatewayConnection,
    deskConnection,
    pool,
    async drop() {
      await pool.end()
      await cluster.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
