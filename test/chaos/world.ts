import { randomBytes } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Connection } from '../../src/base/db/open-database.ts'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import type { AccountLimits } from '../../src/base/domain/caller.ts'
import { removeOnExit } from '../harness/clean-up-on-exit.ts'
import { type FaultProxy, startFaultProxy } from '../harness/fault-proxy.ts'
import { type ChaosCustomer, type ModelName, maxTokensOf, models, openCustomer, USD } from './customer.ts'
import { type GatewayProcess, startGateway } from './gateway-process.ts'
import { type ModelServer, startModelServer } from './model-server.ts'
import { type ChaosPostgres, createPostgres, type PostgresOptions } from './postgres.ts'

/** A database, one model server, and gateways that scenarios start and kill. */
export interface GatewayWorld {
  /** Connects to PostgreSQL without a fault proxy. Reconnects after a restart. */
  readonly pool: Pool
  readonly modelServer: ModelServer
  /** All customers opened so far. */
  readonly customers: readonly ChaosCustomer[]
  /** The running gateways. */
  readonly nodes: readonly GatewayProcess[]
  openCustomer(creditNanos: bigint, limits?: Partial<AccountLimits>): Promise<ChaosCustomer>
  /** Opens one customer with enough credit for every load, and one with 5 USD or this much. */
  openTwoCustomers(secondNanos?: bigint): Promise<ChaosCustomer[]>
  /** Starts a gateway without waiting for it. Gateways of the same name use the same data directory. */
  launch(name: string, options?: LaunchOptions): Promise<GatewayProcess>
  /** Returns the running gateway of this name, or starts it and waits until it takes requests. */
  running(name: string, options?: LaunchOptions): Promise<GatewayProcess>
  /** Starts a gateway and waits until it takes requests. */
  start(name: string, options?: LaunchOptions): Promise<GatewayProcess>
  /** Sends SIGTERM to every running gateway. Throws if one does not exit with 0. */
  drain(): Promise<void>
  /** Kills all processes and removes all files. */
  close(): Promise<void>
}

/** A world with a PostgreSQL of its own, and a fault proxy between it and each gateway. */
export interface ChaosWorld extends GatewayWorld {
  readonly postgres: ChaosPostgres
  /** The proxy between this gateway and PostgreSQL. Gateways of the same name share it. */
  proxy(name: string): FaultProxy
}

export interface LaunchOptions {
  readonly failpoints?: string
  /** Default: `journal`. */
  readonly settlement?: 'journal' | 'commit'
}

export async function createWorld(options: PostgresOptions): Promise<ChaosWorld> {
  await using cleanUp = new AsyncDisposableStack()
  const postgres = await createPostgres(options)
  cleanUp.defer(() => postgres.remove())
  const proxies = new Map<string, FaultProxy>()
  cleanUp.defer(async () => {
    await Promise.all([...proxies.values()].map(proxy => proxy.close()))
  })
  const gateways = await createGatewayWorld(postgres.connection, async name => {
    const proxy = proxies.get(name) ?? (await startFaultProxy(postgres.connection))
    proxies.set(name, proxy)
    return proxy.connection
  })
  cleanUp.defer(gateways.close)
  const owned = cleanUp.move()
  return Object.assign(gateways, {
    postgres,
    proxy(name: string) {
      const proxy = proxies.get(name)
      if (proxy === undefined) throw new Error(`${name} was never started`)
      return proxy
    },
    close: () => owned.disposeAsync(),
  })
}

/** @param connectionOf how the gateway of this name reaches PostgreSQL, by TCP */
export async function createGatewayWorld(
  connection: Connection,
  connectionOf: (name: string) => Promise<Connection>,
): Promise<GatewayWorld> {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-chaos-nodes-'))
  removeOnExit(directory, 'files')
  await using cleanUp = new AsyncDisposableStack()
  cleanUp.defer(() => rm(directory, { recursive: true, force: true }))
  const modelServer = await startModelServer()
  cleanUp.defer(() => modelServer.close())
  const pool = createPool(connection, { max: 4, applicationName: 'chaos', statementTimeoutMs: 30_000 })
  cleanUp.defer(() => pool.end())
  const configFiles = { journal: join(directory, 'journal.yaml'), commit: join(directory, 'commit.yaml') }
  for (const settlement of ['journal', 'commit'] as const)
    writeFileSync(configFiles[settlement], configText(modelServer.baseUrl, settlement))
  const masterKey = randomBytes(32).toString('hex')
  const customers: ChaosCustomer[] = []
  const nodes = new Set<GatewayProcess>()
  cleanUp.defer(async () => {
    for (const node of nodes) node.signal('SIGKILL')
    await Promise.all([...nodes].map(node => node.exited))
  })
  const owned = cleanUp.move()

  const world: GatewayWorld = {
    pool,
    modelServer,
    customers,
    get nodes() {
      return [...nodes]
    },
    async openCustomer(creditNanos, limits = {}) {
      const customer = await openCustomer(pool, creditNanos, limits)
      customers.push(customer)
      return customer
    },
    openTwoCustomers: (secondNanos = 5n * USD) =>
      Promise.all([200n * USD, secondNanos].map(credit => world.openCustomer(credit))),
    async launch(name, { failpoints, settlement = 'journal' } = {}) {
      const node = await startGateway({
        name,
        directory,
        configFile: configFiles[settlement],
        database: await connectionOf(name),
        masterKey,
        ...(failpoints !== undefined && { failpoints }),
      })
      nodes.add(node)
      void node.exited.then(() => nodes.delete(node))
      return node
    },
    async start(name, options) {
      const node = await world.launch(name, options)
      await node.ready()
      return node
    },
    async running(name, options) {
      return [...nodes].find(node => node.name === name) ?? (await world.start(name, options))
    },
    async drain() {
      const stopping = [...nodes]
      for (const node of stopping) node.signal('SIGTERM')
      for (const node of stopping) {
        const { code, signal } = await node.exited
        if (code !== 0) throw new Error(`${node.name} exited with ${code ?? signal}:\n${node.log()}`)
      }
    },
    close: () => owned.disposeAsync(),
  }
  return world
}

/** Returns JSON, which is valid YAML. */
function configText(baseUrl: string, settlement: 'journal' | 'commit'): string {
  return JSON.stringify({
    settlement,
    endpoints: [
      {
        name: 'chaos',
        kind: 'local',
        base_url: baseUrl,
        // Converse needs one; the model server ignores it.
        api_key: 'chaos',
        models: Object.entries(models).map(([id, { price, ...declared }]) => ({
          id,
          ...declared,
          price_per_million_usd: {
            input: String(price.inputPicoPerToken / 1_000_000n),
            output: String(price.outputPicoPerToken / 1_000_000n),
          },
          max_output_tokens: maxTokensOf(id as ModelName),
        })),
      },
    ],
    server: { drain_seconds: 30, drain_delay_seconds: 0 },
    // The minimum, so that the journal rotates through many segments.
    journal: { max_bytes: 1_048_576 },
    postgres: { money_connections: 3, general_connections: 3 },
    demo: { enabled: false },
    detect: { enabled: false },
  })
}
