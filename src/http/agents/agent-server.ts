import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { ApiError } from '../../base/domain/errors.ts'
import { headerValues } from '../../base/runtime/header-list.ts'
import type { Log } from '../../base/runtime/log.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { ReportedAgent } from '../../market/supply/status/write-report.ts'
import {
  AGENT_HEADER,
  CONTROL_BYTES_MAX,
  CONTROL_PATH,
  closeCodes,
  DATA_BYTES_MAX,
  DATA_PATH,
  NODE_HEADER,
} from '../../wire/api/agent-protocol.ts'
import type { AgentStock } from '../../wire/upstreams/agents/agent-stock.ts'
import type { AllowedHosts } from '../allowed-hosts.ts'
import { noteRequest } from '../connection-bound.ts'
import { Liveness } from '../liveness.ts'
import { refuseUpgrade } from '../refuse-upgrade.ts'
import { toApiError } from '../respond-error.ts'
import { AgentBounds, AnnouncementBudget, ConnectionCounts, ConnectRate } from './agent-bounds.ts'
import type { AgentCaller, AgentDirectory } from './agent-directory.ts'
import { AgentSession, idleMaxOf, type SessionFacts } from './agent-session.ts'

export interface AgentServerDeps {
  readonly directory: AgentDirectory
  readonly stock: AgentStock
  readonly allowedHosts: Pick<AllowedHosts, 'require'>
  readonly nodeId: () => string
  readonly addressOf: (request: IncomingMessage) => string
  readonly epochMs: () => number
  /** Of this node, for clients and agents together. */
  readonly connectionsMax: number
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  /** Default: 15 s. */
  readonly pingMs?: number
  /**
   * How often keys and earnings are read while an agent is connected. Default: 10 s. The nodes that are alive are read
   * every 2 s, or as often as this if that is more often.
   */
  readonly reportMs?: number
}

const PING_MS = 15_000
/** An agent needs no ping of its own, and one pong. */
const PINGS_MAX = 8
const REPORT_MS = 10_000
/** A node that has just started gets requests at once, and needs the agents for them. */
const NODES_MS = 2_000
/** Control connections, each with limits of its own. */
const AGENTS_PER_HOSTER_MAX = 128

/**
 * Options of both kinds of connections. A frame is limited by `maxPayload`, and so is a message of several frames. Each
 * frame, and each piece in which a frame arrives, costs memory of its own until the message is complete: a message of
 * 256 KiB in frames of one byte took 30 MB. Agents send a message in one frame, and a network cuts it into some hundred
 * pieces at most.
 */
const common = {
  noServer: true,
  clientTracking: false,
  perMessageDeflate: false,
  autoPong: false,
  maxFragments: 64,
  maxBufferedChunks: 4_096,
} as const

/** A request for a WebSocket, with what its connection has sent after it. */
interface Upgrade {
  readonly request: IncomingMessage
  readonly socket: Socket
  readonly head: Buffer
}

/** Accepts the connections of hosters' agents. node:http passes it the requests of `isAgentTarget`, and no others. */
export class AgentServer {
  readonly #deps: AgentServerDeps
  readonly #pingMs: number
  readonly #controls = new WebSocketServer({ ...common, maxPayload: CONTROL_BYTES_MAX })
  readonly #data = new WebSocketServer({ ...common, maxPayload: DATA_BYTES_MAX, skipUTF8Validation: true })
  readonly #sessions = new Map<string, AgentSession>()
  readonly #keyIds = new Map<WebSocket, string>()
  readonly #bounds: AgentBounds
  readonly #agentsPerHoster = new ConnectionCounts(AGENTS_PER_HOSTER_MAX, 'control connections of this hoster')
  readonly #connectRate = new ConnectRate()
  readonly #announcements = new AnnouncementBudget()
  readonly #liveness: Liveness
  readonly #timers: readonly NodeJS.Timeout[]
  #isDraining = false

  constructor(deps: AgentServerDeps) {
    this.#deps = deps
    this.#pingMs = deps.pingMs ?? PING_MS
    this.#bounds = new AgentBounds(deps.connectionsMax, hosterId => this.#closeIdle(hosterId))
    this.#liveness = new Liveness({ intervalMs: this.#pingMs, pingsMax: PINGS_MAX, mustAnswer: true })
    const { reportMs = REPORT_MS } = deps
    this.#timers = [
      setInterval(() => void this.#report(), reportMs).unref(),
      setInterval(() => void this.#reportNodes(), Math.min(reportMs, NODES_MS)).unref(),
    ]
    for (const server of [this.#controls, this.#data]) {
      server.on('headers', headers => headers.push(`${NODE_HEADER}: ${deps.nodeId()}`))
    }
  }

  /** Handles the 'upgrade' event of the server. Always answers. */
  async accept(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    // The library adds its own listener later.
    socket.on('error', ignore)
    noteRequest(socket)
    try {
      await this.#accept(request, socket, head)
    } catch (thrown) {
      const error = toApiError(thrown)
      if (error.code === 'internal_error')
        this.#deps.log.error({ err: error.internal ?? thrown }, 'an agent was refused')
      refuseUpgrade(socket, error, { [NODE_HEADER]: this.#deps.nodeId() })
    }
  }

  /** Sends the agents the models that get requests now. Call it when hosters or prices have changed. */
  async onSupplyChange(): Promise<void> {
    for (const session of this.#sessions.values()) {
      const { state } = await this.#deps.directory.hosterOf(session.facts.hosterId)
      session.sendModels(state)
    }
  }

  /** Closes every connection with a key that may no longer be used. Call it when keys have changed. */
  async onAccessChange(): Promise<void> {
    const keyIds = [...new Set(this.#keyIds.values())]
    if (keyIds.length === 0) return
    const inUse = await this.#deps.directory.keysInUse(keyIds)
    for (const [socket, keyId] of this.#keyIds) {
      if (inUse.has(keyId)) continue
      socket.close(closeCodes.unauthorized, 'The key was revoked or has expired.')
      setImmediate(() => socket.terminate())
    }
  }

  /** Returns the agents that are connected to this node. */
  connected(): ReportedAgent[] {
    return [...this.#sessions.values()].map(session => session.report())
  }

  /** Takes no more connections and asks the agents to keep none idle. */
  drain(): void {
    this.#isDraining = true
    for (const session of this.#sessions.values()) session.drain()
  }

  /** Closes all connections. */
  close(): void {
    this.#isDraining = true
    this.#timers.forEach(clearInterval)
    this.#liveness.stop()
    for (const socket of this.#keyIds.keys()) {
      socket.close(closeCodes.goingAway, 'The node shuts down.')
      setImmediate(() => socket.terminate())
    }
  }

  async #accept(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const { directory, allowedHosts, addressOf } = this.#deps
    if (this.#isDraining) throw new ApiError('server_shutdown')
    allowedHosts.require(request)
    onceClosed(socket, this.#bounds.addStranger(addressOf(request)))
    const caller = await directory.authenticate(request.rawHeaders)
    const url = new URL(request.url ?? '/', 'http://gateway')
    const agentId = headerValues(request.rawHeaders, AGENT_HEADER)[0] ?? ''
    if (!UUID.test(agentId)) {
      throw new ApiError('invalid_header', { param: AGENT_HEADER, message: `${AGENT_HEADER} must be a UUID.` })
    }
    const upgrade = { request, socket, head }
    if (url.pathname === DATA_PATH) this.#acceptData(upgrade, caller, agentId)
    else await this.#acceptControl(upgrade, caller, agentId, url.searchParams)
  }

  async #acceptControl(
    { request, socket, head }: Upgrade,
    caller: AgentCaller,
    agentId: string,
    search: URLSearchParams,
  ): Promise<void> {
    const { directory, nodeId, epochMs } = this.#deps
    if (this.#connectRate.isFloodAfter(caller.hosterId, performance.now())) {
      const message = 'The agents of this hoster have connected too often of late. Keep the connections.'
      throw new ApiError('rate_limit_exceeded', { message, retryAfterS: 5 })
    }
    if (search.get('linked')?.split(',').includes(nodeId())) throw new ApiError('agent_connected')
    const endpoint = search.get('endpoint')
    const [hoster, nodes] = await Promise.all([directory.hosterOf(caller.hosterId), directory.liveNodes()])
    const endpointId = endpoint === null ? hoster.endpointIds[0] : hoster.endpointIds.find(id => id === endpoint)
    if (endpointId === undefined) {
      const what = endpoint === null ? 'no endpoint that an agent serves' : 'no such endpoint that an agent serves'
      throw new ApiError('not_found', { message: `This hoster has ${what}. Apply for one, or ask the operator.` })
    }
    const known = this.#sessions.get(agentId)
    if (known !== undefined && known.facts.keyId !== caller.keyId) throw new ApiError('not_found')
    onceClosed(socket, this.#agentsPerHoster.add(caller.hosterId))
    const facts = { ...caller, agentId, endpointId, ownerIds: hoster.ownerIds, sinceMs: epochMs() }
    onceClosed(socket, this.#bounds.add({ ...facts, isActive: hoster.state === 'active' }))
    this.#controls.handleUpgrade(request, socket, head, websocket => {
      this.#watch(websocket, caller)
      const session = new AgentSession(websocket, facts, hoster, nodes, {
        offersAt: directory.offersAt,
        onServing: () => this.#onServing(facts),
        announcements: this.#announcements,
      })
      // The agent lost the earlier connection and connected again before this node noticed.
      known?.close(closeCodes.goingAway, 'Another control connection of this agent replaces this one.')
      this.#open(session, websocket)
      session.send({
        type: 'welcome',
        node: nodeId(),
        nodes: [...nodes],
        hoster: { id: caller.hosterId, name: hoster.name, state: hoster.state },
        endpoint: endpointId,
        time_ms: epochMs(),
        ping_seconds: this.#pingMs / 1000,
        limits: { idle_connections: idleMaxOf(nodes), connections: this.#bounds.perKeyMax },
      })
    })
  }

  #open(session: AgentSession, websocket: WebSocket): void {
    const { stock, log } = this.#deps
    const { agentId, hosterId, endpointId, keyId } = session.facts
    const before = this.#sessions.get(agentId)
    if (before !== undefined) stock.remove(before.lines)
    this.#sessions.set(agentId, session)
    stock.add(session.lines)
    log.info({ hosterId, endpointId, keyId, agentId }, 'an agent connected')
    websocket.once('close', code => {
      if (this.#sessions.get(agentId) !== session) return
      this.#sessions.delete(agentId)
      stock.remove(session.lines)
      log.info({ hosterId, endpointId, keyId, agentId, code }, 'an agent disconnected')
    })
    void this.#sendEarnings([session])
  }

  #onServing({ endpointId }: SessionFacts): void {
    const { directory, log } = this.#deps
    directory.onServing(endpointId).catch(error => log.warn({ err: error, endpointId }, 'an agent was not noted'))
  }

  #acceptData({ request, socket, head }: Upgrade, caller: AgentCaller, agentId: string): void {
    const session = this.#sessions.get(agentId)
    if (session === undefined || session.facts.keyId !== caller.keyId) {
      throw new ApiError('not_found', { message: 'This agent has no control connection to this node. Open one first.' })
    }
    if (!session.hasRoom) {
      throw new ApiError('rate_limit_exceeded', { message: 'This node has enough idle connections.', retryAfterS: 1 })
    }
    onceClosed(socket, this.#bounds.add({ ...session.facts, isActive: session.isHosterActive }))
    this.#data.handleUpgrade(request, socket, head, websocket => {
      this.#watch(websocket, caller)
      session.lines.add(websocket)
    })
  }

  /** Closes the idle connection of a hoster that has waited longest. Returns whether there was one. */
  #closeIdle(hosterId: string): boolean {
    return [...this.#sessions.values()].some(({ facts, lines }) => facts.hosterId === hosterId && lines.closeIdle())
  }

  #watch(websocket: WebSocket, { keyId }: AgentCaller): void {
    this.#liveness.watch(websocket)
    this.#keyIds.set(websocket, keyId)
    // A message that breaks the protocol or a limit. The library closes the connection.
    websocket.on('error', ignore).once('close', () => this.#keyIds.delete(websocket))
  }

  async #report(): Promise<void> {
    this.#connectRate.forgetRested(performance.now())
    const sessions = [...this.#sessions.values()]
    if (sessions.length === 0) return
    try {
      await this.onAccessChange()
      await this.#sendEarnings(sessions)
    } catch (error) {
      this.#deps.log.warn({ err: error }, 'nothing could be reported to agents; trying again')
    }
  }

  async #reportNodes(): Promise<void> {
    if (this.#sessions.size === 0) return
    try {
      const nodes = await this.#deps.directory.liveNodes()
      for (const session of this.#sessions.values()) session.sendNodes(nodes)
    } catch (error) {
      this.#deps.log.warn({ err: error }, 'the nodes could not be reported to agents; trying again')
    }
  }

  async #sendEarnings(sessions: readonly AgentSession[]): Promise<void> {
    for (const [hosterId, group] of Map.groupBy(sessions, ({ facts }) => facts.hosterId)) {
      try {
        const earnings = await this.#deps.directory.earningsOf(hosterId)
        for (const session of group) session.sendEarnings(earnings)
      } catch (error) {
        this.#deps.log.warn({ err: error, hosterId }, 'the earnings of a hoster could not be read; trying again')
      }
    }
  }
}

function onceClosed(socket: Socket, end: () => void): void {
  if (socket.destroyed) end()
  else socket.once('close', end)
}

function ignore(): void {}

/** Whether a request asks for a WebSocket of an agent. Called for requests with an Upgrade header only. */
export function isAgentTarget({ method, url = '', headers }: IncomingMessage): boolean {
  const [path] = url.split('?', 1)
  return (
    method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket' && (path === CONTROL_PATH || path === DATA_PATH)
  )
}
