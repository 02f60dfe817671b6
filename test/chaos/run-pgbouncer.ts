// `npm run chaos:pgbouncer`: gateways behind a real PgBouncer in session mode, under load, while PostgreSQL and PgBouncer are killed; then the start
// behind modes that a gateway refuses. Needs `pgbouncer` in PATH. docs/high-availability.md#pgbouncer
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../../bench/free-port.ts'
import type { Connection } from '../../src/base/db/open-database.ts'
import { killOnExit, removeOnExit } from '../harness/clean-up-on-exit.ts'
import { eventually } from './eventually.ts'
import { loadTwoNodes } from './load-two-nodes.ts'
import { createPostgres } from './postgres.ts'
import { verdictOn } from './verdict.ts'
import { createGatewayWorld } from './world.ts'

const KILLS = 5
const REQUESTS_MAX = 4_000

const postgres = await createPostgres({ durable: true })
const problems: string[] = []
try {
  await checkSessionMode()
  await checkRefusal('pool_mode = transaction', 'set pool_mode = session')
  await checkRefusal('pool_mode = statement', 'set pool_mode = session')
  await checkRefusal('server_reset_query =', 'set server_reset_query = DISCARD ALL')
} finally {
  await postgres.remove()
}
console.log(problems.length === 0 ? 'all is well' : problems.join('\n'))
process.exit(problems.length === 0 ? 0 : 1)

async function checkSessionMode(): Promise<void> {
  let bouncer = await startPgbouncer('pool_mode = session')
  const world = await createGatewayWorld(postgres.connection, async () => bouncer.connection)
  try {
    for (const name of ['a', 'b']) await world.running(name)
    const { customers, untilServing, stop } = await loadTwoNodes(world, { requestsMax: REQUESTS_MAX, seed: 1 })
    try {
      for (let kill = 0; kill < KILLS; kill++) {
        await untilServing()
        if (kill % 2 === 0) {
          await postgres.kill()
          await postgres.start()
        } else {
          await bouncer.kill()
          bouncer = await startPgbouncer('pool_mode = session', bouncer.port)
        }
        await delay(1_000)
      }
      await untilServing()
    } finally {
      await stop()
    }
    await world.drain()
    const verdict = await verdictOn(world, customers)
    problems.push(...verdict.problems)
    console.log(`pool_mode = session: ${verdict.requests} requests, ${KILLS} kills of PostgreSQL and PgBouncer in turn`)
  } finally {
    await world.close()
    await bouncer.kill()
  }
}

async function checkRefusal(setting: string, reason: string): Promise<void> {
  const bouncer = await startPgbouncer(setting)
  const world = await createGatewayWorld(postgres.connection, async () => bouncer.connection)
  try {
    const node = await world.launch('refused')
    const { code } = await node.exited
    if (code !== 1 || !node.log().includes(reason)) problems.push(`${setting}: exit ${code}, ${node.log()}`)
    console.log(`${setting}: ${node.log().trim()}`)
  } finally {
    await world.close()
    await bouncer.kill()
  }
}

interface Pgbouncer {
  readonly connection: Connection
  readonly port: number
  kill(): Promise<void>
}

async function startPgbouncer(setting: string, givenPort?: number): Promise<Pgbouncer> {
  const { host, port: behind, user, password, database } = postgres.connection
  const port = givenPort ?? (await freePort())
  const home = mkdtempSync(join(tmpdir(), 'switchyard-pgbouncer-'))
  removeOnExit(home, 'files')
  // It runs as another user.
  chmodSync(home, 0o755)
  writeFileSync(join(home, 'users.txt'), `"${user}" "${password}"\n`)
  const file = join(home, 'pgbouncer.ini')
  writeFileSync(
    file,
    `[databases]
${database} = host=${host} port=${behind} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = plain
auth_file = ${join(home, 'users.txt')}
default_pool_size = 60
server_login_retry = 1
${setting}
`,
  )
  // Only the user of PostgreSQL may use its socket.
  const { uid, gid } = statSync(String(host))
  const child = spawn('pgbouncer', ['--quiet', file], { stdio: ['ignore', 'ignore', 'inherit'], uid, gid })
  killOnExit(child)
  const exited = once(child, 'exit')
  const connection = { user, password, database, host: '127.0.0.1', port }
  await eventually('PgBouncer listens', () => isListening(port))
  return {
    connection,
    port,
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
