import { randomUUID } from 'node:crypto'
import { toPlain } from '../../base/runtime/plain-text.ts'
import { type Clock, endOfTurn } from '../../base/runtime/scheduler.ts'
import { type AgentState, type FromAgent, REASON_CHARACTERS_MAX, type ToAgent } from '../../wire/api/agent-protocol.ts'
import { GatewayLink } from './gateway-link.ts'
import { type PowerOptions, powerObstacle } from './power-gate.ts'
import { type FoundModel, readModels } from './read-models.ts'
import { RequestServer } from './request-server.ts'
import { type Hours, isWithin } from './schedule.ts'
import { Slots } from './slots.ts'
import { TokenRate } from './token-rate.ts'
import { type Upstream, UpstreamServer } from './upstream.ts'

export interface AgentOptions extends PowerOptions {
  readonly gateways: readonly string[]
  readonly key: string
  readonly endpoint: string | null
  readonly upstream: Upstream
  /** The ids to offer at the model server; null for all. */
  readonly models: readonly string[] | null
  /** Requests at once, for all models together. */
  readonly slots: number
  readonly slotsPerModel: number
  readonly hours: readonly Hours[]
  readonly tokensPerMinute: number | null
}

export interface AgentDeps {
  readonly version: string
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly report: (event: AgentEvent) => void
  /** How often the model server and the limits are checked. Default: 10 s. */
  readonly checkMs?: number
}

/** What the hoster is shown. */
export type AgentEvent =
  | { readonly event: 'connected' | 'draining' }
  | { readonly event: 'disconnected'; readonly reason: string }
  | { readonly event: 'unreachable'; readonly reason: string; readonly retryMs: number }
  | { readonly event: 'state'; readonly state: AgentState; readonly reason: string | null }
  | { readonly event: 'models'; readonly models: Extract<ToAgent, { type: 'models' }> }
  | { readonly event: 'earnings'; readonly todayUsd: string; readonly totalUsd: string }

export interface RunningAgent {
  /** Resolves with a message when the gateway refuses the key or the endpoint. */
  readonly refused: Promise<string>
  /** Refuses new requests. Resolves when the running ones have ended. */
  drain(): Promise<void>
  /** Ends everything now. */
  stop(): void
}

const CHECK_MS = 10_000
const DRAIN_REPORT = 'the agent stops'

/** Connects to the gateway and serves its requests until `stop`. */
export function runAgent(options: AgentOptions, deps: AgentDeps): RunningAgent {
  return new Agent(options, deps)
}

class Agent implements RunningAgent {
  readonly refused: Promise<string>
  readonly #options: AgentOptions
  readonly #deps: AgentDeps
  readonly #upstream: UpstreamServer
  readonly #slots: Slots
  readonly #tokens: TokenRate
  readonly #server: RequestServer
  readonly #gateway: GatewayLink
  readonly #timer: NodeJS.Timeout
  readonly #refused = Promise.withResolvers<string>()
  readonly #drained = Promise.withResolvers<void>()
  #models: readonly FoundModel[] = []
  #ids: ReadonlySet<string> = new Set()
  #isDraining = false
  /** Why no request is served; null when requests are served. */
  #pause: string | null = 'the agent starts'
  #statusSent = ''
  #announcedSent = ''
  #stateReported = ''
  #earningsReported = ''
  #isChecking = false
  #willSendStatus = false

  constructor(options: AgentOptions, deps: AgentDeps) {
    this.#options = options
    this.#deps = deps
    this.refused = this.#refused.promise
    this.#upstream = new UpstreamServer(options.upstream)
    this.#slots = new Slots(options.slots, options.slotsPerModel, () => this.#onSlots())
    this.#tokens = new TokenRate(options.tokensPerMinute, () => deps.clock.monotonicMs())
    this.#server = new RequestServer({
      upstream: this.#upstream,
      slots: this.#slots,
      isAnnounced: model => this.#ids.has(model),
      refusal: () => this.#refusal(),
      onTokens: tokens => this.#onTokens(tokens),
    })
    this.#gateway = new GatewayLink({
      gateways: options.gateways,
      key: options.key,
      agentId: randomUUID(),
      endpoint: options.endpoint,
      random: deps.random,
      onData: socket => this.#server.serve(socket),
      greeting: () => [this.#announcement(), this.#status()],
      onMessage: (_node, message) => this.#onMessage(message),
      onConnected: () => deps.report({ event: 'connected' }),
      onDisconnected: (_node, reason) => this.#isDraining || deps.report({ event: 'disconnected', reason }),
      onUnreachable: (reason, retryMs) => deps.report({ event: 'unreachable', reason, retryMs }),
      onRefused: reason => this.#refused.resolve(reason),
    })
    this.#timer = setInterval(() => void this.#check(), deps.checkMs ?? CHECK_MS)
    void this.#check()
  }

  async drain(): Promise<void> {
    this.#isDraining = true
    this.#sendStatus()
    this.#deps.report({ event: 'draining' })
    this.#server.onIdle(() => this.#drained.resolve())
    await this.#drained.promise
    this.stop()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#gateway.stop()
    this.#upstream.close()
    this.#drained.resolve()
  }

  /** Reads the models of the server, and whether requests may be served. */
  async #check(): Promise<void> {
    if (this.#isChecking) return
    this.#isChecking = true
    try {
      const known = new Map(this.#models.flatMap(({ id, context_tokens: n }) => (n === undefined ? [] : [[id, n]])))
      const [models, power] = await Promise.all([
        readModels(this.#options.upstream, known).catch((error: Error) => error),
        powerObstacle(this.#options),
      ])
      if (!(models instanceof Error)) this.#setModels(models)
      // A server that is busy with requests may list its models late. If it is down, its requests end at once.
      const isDown = models instanceof Error && this.#slots.running === 0
      this.#pause = this.#obstacle(isDown ? models.message : null, power)
      this.#sendStatus()
    } finally {
      this.#isChecking = false
    }
  }

  #setModels(found: readonly FoundModel[]): void {
    const { models } = this.#options
    this.#models = models === null ? found : found.filter(({ id }) => models.includes(id))
    this.#ids = new Set(this.#models.map(({ id }) => id))
    const announcement = this.#announcement()
    const text = JSON.stringify(announcement)
    if (text === this.#announcedSent) return
    this.#announcedSent = text
    this.#gateway.broadcast(announcement)
  }

  #obstacle(upstream: string | null, power: string | null): string | null {
    if (upstream !== null) return upstream
    if (this.#models.length === 0) return 'the model server has none of the models to offer'
    if (!isWithin(this.#options.hours, new Date(this.#deps.clock.epochMs()))) return 'outside of the hours of --hours'
    return power
  }

  #refusal(): string | null {
    if (this.#isDraining) return DRAIN_REPORT
    return this.#pause ?? (this.#tokens.isUsedUp ? 'the tokens of this minute are used up' : null)
  }

  #announcement(): FromAgent {
    return {
      type: 'announce',
      version: this.#deps.version,
      slots: this.#slots.total,
      models: this.#models.map(model => ({ ...model, slots: this.#slots.perModel })),
    }
  }

  #status(): Extract<FromAgent, { type: 'status' }> {
    const reason = this.#refusal()
    const state = this.#isDraining ? 'draining' : reason === null ? 'open' : 'paused'
    return {
      type: 'status',
      state,
      ...(reason !== null && { reason: toPlain(reason.slice(0, REASON_CHARACTERS_MAX)) }),
      free_slots: this.#slots.free,
    }
  }

  #sendStatus(): void {
    const status = this.#status()
    const text = JSON.stringify(status)
    if (text !== this.#statusSent) {
      this.#statusSent = text
      this.#gateway.broadcast(status)
    }
    const reported = `${status.state} ${status.reason}`
    if (reported === this.#stateReported || this.#isDraining) return
    this.#stateReported = reported
    this.#deps.report({ event: 'state', state: status.state, reason: this.#refusal() })
  }

  #onSlots(): void {
    if (this.#willSendStatus) return
    this.#willSendStatus = true
    endOfTurn(() => {
      this.#willSendStatus = false
      this.#sendStatus()
    })
  }

  #onTokens(tokens: number): void {
    this.#tokens.add(tokens)
    this.#sendStatus()
  }

  #onMessage(message: ToAgent): void {
    const { report } = this.#deps
    if (message.type === 'models') report({ event: 'models', models: message })
    if (message.type !== 'earnings') return
    const { today_usd: todayUsd, total_usd: totalUsd } = message
    // Each node reports them.
    if (this.#earningsReported === totalUsd) return
    this.#earningsReported = totalUsd
    report({ event: 'earnings', todayUsd, totalUsd })
  }
}
