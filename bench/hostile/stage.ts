import { mkdirSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { transaction } from '../../src/base/db/pool.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { addHosters, untilListed } from '../add-hosters.ts'
import { type Gateway, startGateway, withDatabase } from '../gateway.ts'
import type { PacedJob, PacedResult } from '../paced-load.ts'
import { printProgress } from '../print-progress.ts'
import {
  ask,
  type Cores,
  pin,
  type Running,
  setCpuPriority,
  startLoad,
  startReporter,
  startUpstream,
} from '../process.ts'
import { readRssMb } from '../process-usage.ts'
import { wholeBody } from '../request-bodies.ts'
import { benchConfig } from '../subjects/switchyard.ts'
import type { AttackJob, AttackResult } from './attacker.ts'
import type { Behaviour, HostileCustomer } from './behaviour.ts'
import { serverBehaviours } from './behaviours.ts'
import type { Bystander, Row } from './report.ts'

interface StageOptions {
  readonly dir: string
  readonly cores: Cores
  /** The length of each measurement. */
  readonly seconds: number
  /** Writes a CPU profile of the gateway. */
  readonly profile: boolean
}

interface Players {
  readonly upstream: { origin: string }
  readonly load: Running
  readonly hostile: Running
  readonly ports: Record<string, number>
}

const BYSTANDER_PER_S = 200
const FRESH_PER_S = 20
const RSS_SAMPLE_MS = 100
/** The behaviour has so long to take effect before the bystander is measured. */
const HEAD_START_MS = 200
/** A heap limit as on a machine with 1 GB. */
const HEAP_MB = 512
const BYSTANDER_USD = 1_000_000
const RICH_USD = 1_000_000
const CONTEXT_TOKENS = 1_000_000
const OUTPUT_TOKENS_MAX = 400_000
const POOR_USD = 5

/** The gateway, its bystander, and the hostile parties. */
export class HostileStage {
  readonly conditions: readonly string[]
  readonly #options: StageOptions
  readonly #players: Players
  #gateway: Gateway
  #bystander: Record<string, string> = {}

  static async open(options: StageOptions): Promise<HostileStage> {
    const { dir, cores } = options
    const upstream = await startUpstream(cores, dir)
    const load = startLoad('paced-load.ts', cores, dir)
    const { running: hostile, message: ports } = await startReporter<Record<string, number>>(
      'hostile/hostile-server.ts',
      [],
      { core: cores?.load, logFile: join(dir, 'hostile-server.log') },
    )
    yieldCpu(hostile.pid, cores)
    mkdirSync(join(dir, 'switchyard'))
    const stage = new HostileStage(
      options,
      { upstream, load, hostile, ports },
      await startNode(options, upstream.origin, ports),
    )
    await stage.#addParties()
    return stage
  }

  private constructor(options: StageOptions, players: Players, gateway: Gateway) {
    this.#options = options
    this.#players = players
    this.#gateway = gateway
    this.conditions = [
      `- bystander: ${BYSTANDER_PER_S} small requests a second on kept connections and ${FRESH_PER_S} on new ones, for ${options.seconds} s during each behaviour; \`without\`: the last measurement without one`,
      `- memory: the gateway has a heap limit of ${HEAP_MB} MB, as on a machine with 1 GB; RSS is the highest of samples each ${RSS_SAMPLE_MS} ms`,
      ...(isMachineBusy
        ? ['- the machine was busy: the hostile parties competed with the bystander for its core']
        : []),
    ]
  }

  get rssMb(): number {
    return readRssMb(this.#gateway.pid) ?? 0
  }

  /** Measures the bystander. */
  async measure(): Promise<Bystander> {
    const { seconds } = this.#options
    const url = `${this.#gateway.origin}/v1/chat/completions`
    const job: PacedJob = {
      url,
      headers: this.#bystander,
      body: wholeBody,
      ratePerS: BYSTANDER_PER_S,
      freshPerS: FRESH_PER_S,
      seconds,
      pid: this.#gateway.pid,
    }
    await this.#readStallMs()
    let rssMaxMb = 0
    const sampling = setInterval(() => {
      rssMaxMb = Math.max(rssMaxMb, this.rssMb)
    }, RSS_SAMPLE_MS)
    const result = await ask<PacedJob, PacedResult>(this.#players.load, job, (seconds + 60) * 1000)
    clearInterval(sampling)
    const stallMs = await this.#readStallMs()
    return {
      meanMs: result.meanMs,
      p99Ms: result.p99Ms,
      freshP99Ms: result.freshP99Ms,
      failed: result.failed + result.skipped,
      stallMs,
      rssMaxMb,
      coreShare: result.cpuShare,
    }
  }

  /** Measures the bystander while one party is hostile. */
  async play(behaviour: Behaviour): Promise<Pick<Row, 'attacked' | 'events' | 'hasCrashed'>> {
    const { dir, cores, seconds } = this.#options
    const attacker = startLoad('hostile/attacker.ts', cores, dir)
    yieldCpu(attacker.pid, cores)
    const customer =
      behaviour.party === 'server' ? { creditUsd: RICH_USD } : behaviour.party === 'customer' ? behaviour.customer : {}
    const headers = await this.#addKey(customer)
    const job: AttackJob = {
      id: `${behaviour.party} ${behaviour.name}`,
      origin: this.#gateway.origin,
      headers,
      seconds: seconds + 1 + HEAD_START_MS / 1000,
    }
    const attack = ask<AttackJob, AttackResult>(attacker, job, (seconds + 20) * 1000).then(
      ({ events }) => events,
      (error: Error) => {
        printProgress(error.message)
        return { 'the attacker failed': 1 }
      },
    )
    await delay(HEAD_START_MS)
    const attacked = await this.measure().catch((error: Error) => {
      printProgress(error.message)
      return unmeasured
    })
    const events = await attack
    attacker.process.kill('SIGKILL')
    const hasCrashed = !isRunning(this.#gateway.pid)
    if (hasCrashed) await this.#restart()
    return { attacked, events, hasCrashed }
  }

  async close(): Promise<void> {
    await this.#gateway.stop()
    await this.#players.hostile.stop()
  }

  async #addParties(): Promise<void> {
    const model = { contextTokens: CONTEXT_TOKENS, maxOutputTokens: OUTPUT_TOKENS_MAX }
    const hosters = serverBehaviours
      .filter(({ speaks }) => speaks === undefined)
      .map(({ name, features = [] }) => ({
        modelId: name,
        baseUrl: `http://127.0.0.1:${this.#players.ports[name]}/v1`,
        model: { ...model, features },
      }))
    await withDatabase(this.#gateway, pool => addHosters(pool, hosters))
    this.#bystander = await this.#addKey({ creditUsd: BYSTANDER_USD })
    await untilListed(this.#gateway.origin, this.#bystander, serverBehaviours.length)
  }

  async #addKey({ creditUsd = POOR_USD, tier = 'bench' }: HostileCustomer = {}): Promise<Record<string, string>> {
    const key = await withDatabase(this.#gateway, pool =>
      transaction(pool, async sql => {
        const email = `${crypto.randomUUID()}@example.com`
        const { customerId } = (await addCustomer(sql, { email, accountTier: tier }))!
        await openAccount(sql, customerId, BigInt(creditUsd) * 1_000_000_000n)
        return (await issueKey(sql, { customerId, name: 'bench' })).key
      }),
    )
    return { authorization: `Bearer ${key}` }
  }

  async #restart(): Promise<void> {
    printProgress('the gateway ended and is started again')
    const { dataDir } = this.#gateway
    await this.#gateway.stop()
    const { upstream, ports } = this.#players
    this.#gateway = await startNode(this.#options, upstream.origin, ports, dataDir)
    await untilListed(this.#gateway.origin, this.#bystander, serverBehaviours.length)
  }

  /** The longest stall of the gateway's event loop since the last call. */
  async #readStallMs(): Promise<number | null> {
    const metrics = await fetch(this.#gateway.metricsUrl, { signal: AbortSignal.timeout(10_000) }).then(
      response => response.text(),
      () => '',
    )
    const maxS = /^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(metrics)?.[1]
    return maxS === undefined ? null : Math.max(0, Number(maxS) * 1000 - LAG_SAMPLE_MS)
  }
}

/** In place of a measurement that failed. */
const unmeasured: Bystander = {
  meanMs: 0,
  p99Ms: 0,
  freshP99Ms: 0,
  failed: 1,
  stallMs: null,
  rssMaxMb: 0,
  coreShare: null,
}

/** The time between two samples counts as lag. */
const LAG_SAMPLE_MS = 10

async function startNode(
  { dir, cores, profile }: StageOptions,
  upstreamOrigin: string,
  ports: Record<string, number>,
  dataDir?: string,
): Promise<Gateway> {
  const usual = benchConfig(upstreamOrigin)
  const config = {
    ...usual,
    endpoints: [...usual.endpoints, ...nativeEndpoints(ports)],
    demo: { enabled: true, tokens_per_second: 100_000 },
    hosters: { allow_private_urls: true },
    reports: { requests_per_minute: 120 },
  }
  const nodeFlags = `--max-old-space-size=${HEAP_MB}`
  const nodeDir = join(dir, 'switchyard')
  const gateway = await startGateway({ dir: nodeDir, cores, config, profile, nodeFlags, ...(dataDir && { dataDir }) })
  for (const pid of gateway.processes()) pin(pid, cores?.subject)
  return gateway
}

/** Configures the servers that do not speak chat. */
function nativeEndpoints(ports: Record<string, number>): object[] {
  return serverBehaviours
    .filter(({ speaks }) => speaks !== undefined)
    .map(({ name, speaks }) => ({
      name,
      kind: 'local',
      base_url: `http://127.0.0.1:${ports[name]}/v1`,
      speaks: [speaks],
      models: [
        {
          id: name,
          price_per_million_usd: { input: 1, output: 2 },
          context_tokens: CONTEXT_TOKENS,
          max_output_tokens: OUTPUT_TOKENS_MAX,
        },
      ],
    }))
}

/**
 * Hostile parties must not delay the bystander by using the core that they share with it. On a busy machine they would
 * get no time at all.
 */
function yieldCpu(pid: number, cores: Cores): void {
  if (cores !== null && process.getuid?.() === 0 && !isMachineBusy) setCpuPriority(pid, 'idle')
}

const isMachineBusy = loadavg()[0]! > 1.5

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
