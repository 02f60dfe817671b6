import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../../bench/free-port.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { addAgentHoster } from '../../test/agent/agent-world.ts'
import { startHostProcess } from '../../test/agent/host-process.ts'
import { openCustomer, USD } from '../../test/chaos/customer.ts'
import { eventually } from '../../test/chaos/eventually.ts'
import { type GatewayProcess, startGateway } from '../../test/chaos/gateway-process.ts'
import { createPostgres } from '../../test/chaos/postgres.ts'
import { killOnExit, removeOnExit } from '../../test/harness/clean-up-on-exit.ts'
import { startFaultProxy } from '../../test/harness/fault-proxy.ts'
import { answer, sse, startScriptedUpstream, streamEvents } from '../../test/harness/scripted-upstream.ts'
import { Client } from './client.ts'

/** Served by each gateway's own server, which answers with the name of the gateway. */
export const LOCAL_MODEL = 'local-model'
/** Served by an agent that connects through the proxy. */
export const AGENT_MODEL = 'agent-model'
/** The first word of every stream. */
export const FIRST_WORD = 'first'
/** How many keys send requests: enough for each node to be the first choice of some. */
const KEYS = 16
const AGENT_SLOTS = 64
const PIECES = 10
/** A request with this prompt gets a stream that outlasts the drain delay, when a node stops in its first half. */
export const SLOW = 'slowly'
const PIECE_MS = 80
const SLOW_PIECE_MS = 900

const MASTER_KEY = '0'.repeat(64)

export interface Node {
  readonly name: string
  /** On 127.0.0.1. The same after a restart. */
  readonly port: number
  /** The running process. */
  readonly gateway: GatewayProcess
  /** Starts a new process when the former one has ended. Resolves when it is ready. */
  start(): Promise<void>
}

/** Two gateways on one PostgreSQL, and the keys of their customers. */
export interface TwoGateways {
  readonly directory: string
  readonly first: Node
  readonly second: Node
  readonly keys: readonly string[]
  /** Starts another gateway at a port of its own. */
  startNode(name: string): Promise<Node>
  /** Starts the agent of a hoster, which connects to this address. Resolves when it serves requests at both gateways. */
  startAgent(gateway: string): Promise<void>
  /** The number of wrong passwords that the gateways have counted, by the address of the client. */
  wrongSignIns(): Promise<Record<string, number>>
  /** Upstreams send only the first word of a stream until this resolves. */
  holdStreams(until: Promise<void>): void
}

/** @param cleanUp stops all that is started, and removes its files */
export async function startTwoGateways(cleanUp: AsyncDisposableStack): Promise<TwoGateways> {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-proxy-'))
  // A proxy that is started by root may have workers of another account.
  chmodSync(directory, 0o755)
  removeOnExit(directory, 'files')
  cleanUp.defer(() => rm(directory, { recursive: true, force: true }))
  const postgres = await createPostgres({ durable: false })
  cleanUp.defer(() => postgres.remove())
  const pool = createPool(postgres.connection, { max: 2, applicationName: 'try-proxy', statementTimeoutMs: 30_000 })
  cleanUp.defer(() => pool.end())
  // PostgreSQL itself listens on a socket of this account only.
  const database = await startFaultProxy(postgres.connection)
  cleanUp.defer(() => database.close())

  let restOfStreams: Promise<void> = Promise.resolve()
  const startUpstream = async (model: string, name: string) => {
    const upstream = await startScriptedUpstream({ models: [model] })
    cleanUp.defer(() => upstream.close())
    const whole = answer({ text: name })
    const events = streamEvents({ pieces: [FIRST_WORD, ...Array.from({ length: PIECES }, (_, n) => ` ${n}`)] })
    upstream.always(async (asked, response) => {
      if (asked.body.stream !== true) return await whole(asked, response)
      const pieceMs = asked.body.messages?.[0]?.content === SLOW ? SLOW_PIECE_MS : PIECE_MS
      // The first event has the role, the second one the first word.
      const beforeEvent = async (index: number) => {
        if (index < 2) return
        await restOfStreams
        await delay(pieceMs)
      }
      await sse(events, { beforeEvent })(asked, response)
    })
    return upstream
  }

  const startNode = async (name: string): Promise<Node> => {
    // Only this node asks it.
    const upstream = await startUpstream(LOCAL_MODEL, name)
    const configFile = join(directory, `${name}.yaml`)
    // JSON is valid YAML.
    writeFileSync(configFile, JSON.stringify(configOf(upstream.baseUrl)))
    const port = await freePort()
    const begin = () =>
      startGateway({ name, directory, configFile, database: database.connection, masterKey: MASTER_KEY, port })
    let gateway = await begin()
    cleanUp.defer(async () => {
      gateway.signal('SIGKILL')
      await gateway.exited
    })
    await gateway.ready()
    return {
      name,
      port,
      get gateway() {
        return gateway
      },
      async start() {
        gateway = await begin()
        await gateway.ready()
      },
    }
  }

  const startAgent = async (address: string) => {
    const upstream = await startUpstream(AGENT_MODEL, 'agent')
    const { key } = await addAgentHoster({ database: { pool } }, [{ modelId: AGENT_MODEL }])
    const args = ['--gateway', address, '--upstream', upstream.baseUrl, '--slots', String(AGENT_SLOTS)]
    const { child, ended } = startHostProcess(key, args)
    killOnExit(child)
    cleanUp.defer(async () => {
      child.kill('SIGKILL')
      await ended
    })
    for (const { name, port } of [first, second]) {
      const client = new Client(`http://127.0.0.1:${port}`, keys[0]!)
      const isServed = () =>
        client.ask({ model: AGENT_MODEL, stream: false, prompt: 'Hello!' }).then(
          async response => (await response.text()) !== '',
          () => false,
        )
      await eventually(`the agent serves ${name}`, isServed, { everyMs: 200 })
      await client.close()
    }
  }

  const first = await startNode('first')
  const second = await startNode('second')
  const customers = await Promise.all(Array.from({ length: KEYS }, () => openCustomer(pool, 10n * USD)))
  const keys = customers.map(({ key }) => key)
  return {
    directory,
    first,
    second,
    keys,
    startNode,
    startAgent,
    async wrongSignIns() {
      // As in src/identity/people/sign-in-throttle.ts.
      const { rows } = await pool.query<{ address: string; failures: number }>(
        `SELECT substr(subject, 9) AS address, failures FROM sign_in_throttle WHERE subject LIKE 'network %' ORDER BY 1`,
      )
      return Object.fromEntries(rows.map(({ address, failures }) => [address, failures]))
    },
    holdStreams(until) {
      restOfStreams = until
    },
  }
}

function configOf(baseUrl: string): object {
  const price_per_million_usd = { input: '1', output: '1' }
  return {
    // The address of the proxy. All else is as by default, drain_delay_seconds too.
    server: { trusted_proxies: ['127.0.0.1'] },
    endpoints: [
      { name: 'scripted', kind: 'local', base_url: baseUrl, models: [{ id: LOCAL_MODEL, price_per_million_usd }] },
    ],
    demo: { enabled: false },
    detect: { enabled: false },
  }
}
