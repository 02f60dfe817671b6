import type { WebSocket } from 'ws'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'

/** An agent that has a control connection to this node. */
export interface ConnectedAgent {
  readonly endpointId: string
  /** Random, from the agent. An agent with connections to several nodes has the same one on each. */
  readonly agentId: string
  /**
   * How many requests for this model of its server it takes at once; 0 if it has not announced it, or takes none now.
   */
  slotsOf(upstreamModel: string): number
  /** Whether the agent takes requests for this model of its server now. */
  serves(upstreamModel: string): boolean
  /** Whether it has said which models it takes requests for, if any. */
  readonly hasReported: boolean
  /** The free places at its last report. */
  readonly freeSlots: number
  /** Called when `waiting` or the number of idle connections has changed. */
  onStockChange(): void
}

/** How long a request waits for a data connection that the agent has yet to open. Below the usual connect limit. */
const WAIT_MS = 2_000
/**
 * How long a node has requests wait for an agent that is connected to other nodes only. A node that has just started is
 * known to balancers before it is known to agents.
 */
const ARRIVING_FOR_MS = 30_000
/** How long such a request waits. Below the usual connect limit. */
const ARRIVAL_WAIT_MS = 2_500
/** How long an offer pauses when its agent had no free place. */
const BUSY_FOR_S = 1

interface Waiter {
  readonly onTaken: (socket: WebSocket) => void
  readonly timer: NodeJS.Timeout
}

/** The data connections of one agent that wait for a request, and the requests that wait for a connection. */
export class AgentLines {
  readonly agent: ConnectedAgent
  /** The connection that was opened last is at the end and is used first: it is the least likely to be dead. */
  readonly #idle: WebSocket[] = []
  readonly #waiters = new Set<Waiter>()
  /** Called when the agent has announced other models or places, or begins or stops to take requests. */
  onServingChange: () => void = () => {}

  constructor(agent: ConnectedAgent) {
    this.agent = agent
  }

  get idle(): number {
    return this.#idle.length
  }

  get waiting(): number {
    return this.#waiters.size
  }

  /** Gives a new connection to the request that has waited longest, or keeps it. */
  add(socket: WebSocket): void {
    const [waiter] = this.#waiters
    if (waiter !== undefined) {
      this.#waiters.delete(waiter)
      clearTimeout(waiter.timer)
      waiter.onTaken(socket)
    } else {
      const drop = () => this.#drop(socket)
      // No request was sent, so no answer can come.
      const refuse = () => socket.terminate()
      this.#idle.push(socket)
      socket.once('close', drop).on('message', refuse)
      idleListeners.set(socket, { drop, refuse })
    }
    this.agent.onStockChange()
  }

  /** Returns an idle connection, or undefined. */
  pop(): WebSocket | undefined {
    for (let socket = this.#idle.pop(); socket !== undefined; socket = this.#idle.pop()) {
      const { drop, refuse } = idleListeners.get(socket)!
      socket.off('close', drop).off('message', refuse)
      this.agent.onStockChange()
      if (socket.readyState === socket.OPEN) return socket
      socket.terminate()
    }
    return undefined
  }

  /** Waits for a connection. Returns a function that stops waiting. */
  wait(onTaken: (socket: WebSocket) => void, onRefused: (error: Error) => void): () => void {
    const timer = setTimeout(() => {
      this.#waiters.delete(waiter)
      this.agent.onStockChange()
      onRefused(busy('The agent opened no connection in time.'))
    }, WAIT_MS)
    const waiter = { onTaken, timer }
    this.#waiters.add(waiter)
    this.agent.onStockChange()
    return () => {
      clearTimeout(timer)
      if (this.#waiters.delete(waiter)) this.agent.onStockChange()
    }
  }

  /** Closes the idle connection that was opened first. Returns whether there was one. */
  closeIdle(): boolean {
    const [socket] = this.#idle
    if (socket === undefined) return false
    this.#drop(socket)
    socket.terminate()
    return true
  }

  /** Closes the idle connections. Requests that run keep theirs. */
  close(): void {
    for (const socket of [...this.#idle]) socket.terminate()
  }

  #drop(socket: WebSocket): void {
    const index = this.#idle.indexOf(socket)
    if (index === -1) return
    this.#idle.splice(index, 1)
    this.agent.onStockChange()
  }
}

const idleListeners = new WeakMap<WebSocket, { drop: () => void; refuse: () => void }>()

/** All agents that are connected to this node. A hoster may run several for one endpoint. */
export class AgentStock {
  readonly #byEndpoint = new Map<string, Set<AgentLines>>()
  /** The requests that wait for the first report of an agent. */
  readonly #arrivals = new Set<() => void>()
  readonly #arrivingUntilMs = performance.now() + ARRIVING_FOR_MS
  readonly #arrivalWaitMs: number
  /** Called when an agent has connected, disconnected, paused or announced other models or places. */
  onChange: () => void = () => {}

  constructor(arrivalWaitMs = ARRIVAL_WAIT_MS) {
    this.#arrivalWaitMs = arrivalWaitMs
  }

  get counts(): { readonly connected: number; readonly idle: number } {
    const all = [...this.#byEndpoint.values()].flatMap(lines => [...lines])
    return { connected: all.length, idle: all.reduce((sum, { idle }) => sum + idle, 0) }
  }

  add(lines: AgentLines): void {
    const { endpointId } = lines.agent
    const known = this.#byEndpoint.get(endpointId)
    if (known === undefined) this.#byEndpoint.set(endpointId, new Set([lines]))
    else known.add(lines)
    lines.onServingChange = () => {
      this.onChange()
      for (const onArrival of [...this.#arrivals]) onArrival()
    }
    this.onChange()
  }

  /** Returns the agents of an endpoint that are connected to this node. */
  agentsOf(endpointId: string): readonly ConnectedAgent[] {
    return [...(this.#byEndpoint.get(endpointId) ?? [])].map(({ agent }) => agent)
  }

  remove(lines: AgentLines): void {
    const { endpointId } = lines.agent
    const known = this.#byEndpoint.get(endpointId)
    known?.delete(lines)
    if (known?.size === 0) this.#byEndpoint.delete(endpointId)
    lines.close()
    this.onChange()
  }

  /**
   * Takes a data connection for one request. Without one, asks the agent for another and waits up to two seconds. In
   * the first half minute of the node, first waits for the agents of the endpoint to connect. The refusal is an
   * UpstreamFailure `busy`: a lack of capacity, not a fault. Returns a function that stops waiting.
   */
  take(
    endpointId: string,
    upstreamModel: string,
    onTaken: (socket: WebSocket) => void,
    onRefused: (error: Error) => void,
  ): () => void {
    if (this.#isExpectingAgents(endpointId)) return this.#waitForAgent(endpointId, upstreamModel, onTaken, onRefused)
    const able = [...(this.#byEndpoint.get(endpointId) ?? [])].filter(({ agent }) => agent.serves(upstreamModel))
    const free = able.filter(({ agent, waiting }) => agent.freeSlots > waiting)
    const best = free.reduce<AgentLines | undefined>(
      (chosen, lines) => (chosen === undefined || roomOf(lines) > roomOf(chosen) ? lines : chosen),
      undefined,
    )
    if (best === undefined) {
      onRefused(busy(able.length === 0 ? 'No agent of the hoster serves this model now.' : 'All places are taken.'))
      return () => {}
    }
    const socket = best.pop()
    if (socket === undefined) return best.wait(onTaken, onRefused)
    onTaken(socket)
    return () => {}
  }

  #waitForAgent(
    endpointId: string,
    upstreamModel: string,
    onTaken: (socket: WebSocket) => void,
    onRefused: (error: Error) => void,
  ): () => void {
    const leave = () => {
      clearTimeout(timer)
      this.#arrivals.delete(onArrival)
    }
    let stop = leave
    const onArrival = () => {
      if (this.#isExpectingAgents(endpointId)) return
      leave()
      stop = this.take(endpointId, upstreamModel, onTaken, onRefused)
    }
    const timer = setTimeout(() => {
      leave()
      onRefused(busy('No agent of the hoster has connected yet.'))
    }, this.#arrivalWaitMs)
    this.#arrivals.add(onArrival)
    return () => stop()
  }

  /** Whether the node has just started, and none of the agents of the endpoint has reported. */
  #isExpectingAgents(endpointId: string): boolean {
    const hasReported = [...(this.#byEndpoint.get(endpointId) ?? [])].some(({ agent }) => agent.hasReported)
    return !hasReported && performance.now() < this.#arrivingUntilMs
  }
}

/** Prefers an agent with idle connections, and of these the one with most free places. */
const roomOf = ({ idle, waiting, agent }: AgentLines) => (idle > 0 ? SLOTS_ABOVE_ANY : 0) + agent.freeSlots - waiting
const SLOTS_ABOVE_ANY = 1_000_000

function busy(message: string): UpstreamFailure {
  return new UpstreamFailure('busy', message, { retryAfterS: BUSY_FOR_S })
}
