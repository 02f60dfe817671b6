import type { WebSocket } from 'ws'
import { usdText } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { endOfTurn } from '../../base/runtime/scheduler.ts'
import { REPORTED_MODELS_MAX, type ReportedAgent } from '../../market/supply/status/write-report.ts'
import {
  type AgentState,
  type AnnouncedModel,
  closeCodes,
  type FromAgent,
  fromAgentSchema,
  type ToAgent,
} from '../../wire/api/agent-protocol.ts'
import { AgentLines, type ConnectedAgent } from '../../wire/upstreams/agents/agent-stock.ts'
import type { AnnouncementBudget } from './agent-bounds.ts'
import type { AgentCaller, HosterOfAgent } from './agent-directory.ts'

export interface SessionFacts extends AgentCaller {
  /** Random, from the agent. */
  readonly agentId: string
  readonly endpointId: string
  /** The people who owned the hoster then. */
  readonly ownerIds: readonly string[]
  /** When it connected, Unix ms. */
  readonly sinceMs: number
}

/**
 * Idle connections that all nodes together keep of one agent, and the least of one node. Bursts beyond it wait for
 * connections that are opened on demand, about 500 a second.
 */
const IDLE_MAX = 256
const IDLE_OF_NODE_MIN = 8
/** For the checks of a hoster that is not active. */
const IDLE_OF_NEW_HOSTER_MAX = 4
/**
 * An agent that reads this far behind is closed: what waits for it takes memory. The largest message has about 400 KiB.
 */
const UNREAD_BYTES_MAX = 1024 * 1024
const PICO_PER_MILLION_TO_NANOS = 1_000n

export interface SessionDeps {
  readonly offersAt: (endpointId: string) => readonly Offer[]
  /** Called once, when the agent first takes requests. */
  readonly onServing: () => void
  readonly announcements: Pick<AnnouncementBudget, 'replace'>
}

/** The control connection of one agent to this node, and its data connections. */
export class AgentSession implements ConnectedAgent {
  readonly lines = new AgentLines(this)
  readonly facts: SessionFacts
  readonly #socket: WebSocket
  readonly #deps: SessionDeps
  #announcedBytes = 0
  #isServing = false
  #hasReported = false
  #hosterState: string
  #announced: ReadonlyMap<string, AnnouncedModel> = new Map()
  #version = ''
  #state: AgentState = 'paused'
  #reason: string | null = null
  #slots = 0
  #idleMax = IDLE_MAX
  #freeSlots = 0
  #stockSent = 0
  #willSendStock = false
  #modelsSent = ''
  #nodesSent: string
  #isDraining = false
  readonly #rate = new MessageRate()

  constructor(
    socket: WebSocket,
    facts: SessionFacts,
    hoster: HosterOfAgent,
    nodes: readonly string[],
    deps: SessionDeps,
  ) {
    this.#deps = deps
    // The welcome has them.
    this.#nodesSent = nodes.join()
    this.#idleMax = idleMaxOf(nodes)
    this.#socket = socket
    this.facts = facts
    this.#hosterState = hoster.state
    socket
      .on('message', (data: Buffer, isBinary: boolean) => this.#onMessage(data, isBinary))
      .once('close', () => void this.#holdAnnouncement(0))
  }

  get endpointId(): string {
    return this.facts.endpointId
  }

  get agentId(): string {
    return this.facts.agentId
  }

  slotsOf(upstreamModel: string): number {
    if (this.#state !== 'open') return 0
    return Math.min(this.#announced.get(upstreamModel)?.slots ?? 0, this.#slots)
  }

  get hasReported(): boolean {
    return this.#hasReported
  }

  get freeSlots(): number {
    return this.#freeSlots
  }

  report(): ReportedAgent {
    const { agentId, endpointId, hosterId, keyId, sinceMs } = this.facts
    return {
      agentId,
      endpointId,
      hosterId,
      keyId,
      version: this.#version,
      state: this.#state,
      reason: this.#reason,
      slots: this.#slots,
      freeSlots: this.#freeSlots,
      slotsPerModel: Math.max(0, ...this.#announced.values().map(({ slots }) => slots)),
      models: [...this.#announced.keys()].slice(0, REPORTED_MODELS_MAX),
      sinceMs,
    }
  }

  serves(upstreamModel: string): boolean {
    return this.#state === 'open' && !this.#isDraining && this.#announced.has(upstreamModel)
  }

  get isHosterActive(): boolean {
    return this.#hosterState === 'active'
  }

  /** Whether another idle connection is welcome. */
  get hasRoom(): boolean {
    return this.lines.idle < this.#stockWanted
  }

  /** Several changes in one turn make one message. */
  onStockChange(): void {
    if (this.#willSendStock) return
    this.#willSendStock = true
    endOfTurn(() => {
      this.#willSendStock = false
      this.#sendStock()
    })
  }

  send(message: ToAgent): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    if (this.#socket.bufferedAmount > UNREAD_BYTES_MAX) this.#socket.terminate()
    else this.#socket.send(JSON.stringify(message))
  }

  /** Sends the nodes that are alive, if they have changed, and shares the idle connections among them. */
  sendNodes(nodes: readonly string[]): void {
    const text = nodes.join()
    if (text === this.#nodesSent) return
    this.#nodesSent = text
    this.#idleMax = idleMaxOf(nodes)
    this.send({ type: 'nodes', nodes: [...nodes] })
    this.onStockChange()
  }

  sendEarnings({ todayNanos, totalNanos }: { readonly todayNanos: bigint; readonly totalNanos: bigint }): void {
    this.send({ type: 'earnings', today_usd: usdText(todayNanos), total_usd: usdText(totalNanos) })
  }

  /** Reports which announced models get requests, if that has changed. */
  sendModels(hosterState = this.#hosterState): void {
    this.#hosterState = hosterState
    this.onStockChange()
    if (this.#announced.size === 0) return
    const offers = Map.groupBy(this.#deps.offersAt(this.endpointId), offer => offer.upstreamModel)
    const ids = [...this.#announced.keys()]
    const message: ToAgent = {
      type: 'models',
      hoster_state: hosterState,
      served: ids.flatMap(id => (offers.get(id) ?? []).map(servedModel)),
      not_served: ids.filter(id => !offers.has(id)).map(id => ({ id, reason: this.#reasonNotServed(hosterState) })),
    }
    const text = JSON.stringify(message)
    if (text === this.#modelsSent) return
    this.#modelsSent = text
    this.send(message)
  }

  /** The node takes no more requests. Running ones keep their connections. */
  drain(): void {
    this.#isDraining = true
    this.send({ type: 'drain' })
    this.lines.close()
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, reason)
    // The library waits 30 s for the other side to close.
    setTimeout(() => this.#socket.terminate(), 1_000).unref()
  }

  get #stockWanted(): number {
    if (this.#isDraining || this.#state !== 'open') return 0
    const idleMax = this.isHosterActive ? this.#idleMax : IDLE_OF_NEW_HOSTER_MAX
    return Math.min(idleMax, this.#slots) + this.lines.waiting
  }

  #sendStock(): void {
    const idle = this.#stockWanted
    if (idle === this.#stockSent) return
    this.#stockSent = idle
    this.send({ type: 'stock', idle })
  }

  /** Returns whether the node keeps an announcement of this length. */
  #holdAnnouncement(bytes: number): boolean {
    const isHeld = this.#deps.announcements.replace(this.facts.hosterId, this.#announcedBytes, bytes)
    if (isHeld) this.#announcedBytes = bytes
    return isHeld
  }

  #reasonNotServed(hosterState: string): string {
    if (hosterState === 'active') return 'no price'
    return `the hoster is ${hosterState}${nextSteps[hosterState] ?? ''}`
  }

  #onMessage(data: Buffer, isBinary: boolean): void {
    const message = isBinary || this.#rate.isFloodAfter(data.length) ? undefined : parse(data)
    if (message === undefined) {
      this.close(closeCodes.protocol, 'A message was malformed, or there were too many.')
      return
    }
    if (message.type === 'announce') {
      if (!this.#holdAnnouncement(data.length)) {
        this.close(closeCodes.protocol, 'The agents of this hoster announce too many models. Announce fewer.')
        return
      }
      this.#announced = new Map(message.models.map(model => [model.id, model]))
      this.#version = message.version
      this.#slots = message.slots
      this.lines.onServingChange()
      this.sendModels()
    } else {
      const before = this.#state
      this.#state = message.state
      this.#reason = message.reason ?? null
      this.#freeSlots = message.free_slots
      const isFirst = !this.#hasReported
      this.#hasReported = true
      if (message.state !== 'open') this.lines.close()
      if (isFirst || message.state !== before) this.lines.onServingChange()
    }
    if (!this.#isServing && this.#state === 'open' && this.#announced.size > 0) {
      this.#isServing = true
      this.#deps.onServing()
    }
    this.onStockChange()
  }
}

/** The most idle connections that each of these nodes keeps of one agent. */
export function idleMaxOf(nodes: readonly string[]): number {
  return Math.max(IDLE_OF_NODE_MIN, Math.floor(IDLE_MAX / Math.max(1, nodes.length)))
}

function parse(data: Buffer): FromAgent | undefined {
  try {
    return fromAgentSchema.safeParse(JSON.parse(data.toString('utf8'))).data
  } catch {
    return undefined
  }
}

function servedModel({ modelId, upstreamModel, price }: Offer) {
  return {
    id: upstreamModel,
    model: modelId,
    input_usd: usdText(price.inputPicoPerToken * PICO_PER_MILLION_TO_NANOS),
    output_usd: usdText(price.outputPicoPerToken * PICO_PER_MILLION_TO_NANOS),
  }
}

/** What leads on from the states before the first request. */
const nextSteps: Readonly<Record<string, string>> = {
  applied: ', and its models need prices first',
  pending: ', and the gateway verifies it now',
  verified: ', and the operator approves it next',
}

/** Messages within `WINDOW_MS`. The agent reports a change of its places at most once per turn of its event loop. */
const MESSAGES_MAX = 2_000
/**
 * The length of these messages together. The longest announcement has 256 KiB, and follows a change of the models only.
 */
const BYTES_MAX = 2 * 1024 * 1024
const WINDOW_MS = 10_000

/** Counts the messages of one control connection. */
class MessageRate {
  #messages = 0
  #bytes = 0
  #windowStartMs = performance.now()

  /** Counts a message. Returns whether there were too many of late, or too long ones. */
  isFloodAfter(bytes: number): boolean {
    const nowMs = performance.now()
    if (nowMs - this.#windowStartMs >= WINDOW_MS) {
      this.#windowStartMs = nowMs
      this.#messages = 0
      this.#bytes = 0
    }
    this.#bytes += bytes
    return ++this.#messages > MESSAGES_MAX || this.#bytes > BYTES_MAX
  }
}
