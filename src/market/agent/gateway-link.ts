import type { WebSocket } from 'ws'
import { elementAt } from '../../base/runtime/collections.ts'
import { CONTROL_PATH, DATA_PATH, type FromAgent, type ToAgent } from '../../wire/api/agent-protocol.ts'
import { BackOff } from './back-off.ts'
import { type Dialled, dial } from './dial.ts'
import { NodeLink } from './node-link.ts'

export interface GatewayLinkOptions {
  /** One URL, or several if the nodes have no common address. They are used in turn. */
  readonly gateways: readonly string[]
  readonly key: string
  readonly agentId: string
  /** The endpoint to serve, if the hoster has several. */
  readonly endpoint: string | null
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** A data connection is open. Its request comes later. */
  readonly onData: (socket: WebSocket) => void
  /** The messages that a node gets when it is connected. */
  readonly greeting: () => readonly FromAgent[]
  readonly onMessage: (node: string, message: ToAgent) => void
  readonly onConnected: (node: string) => void
  readonly onDisconnected: (node: string, reason: string) => void
  /** Nothing is connected, and the next attempt follows in `retryMs`. */
  readonly onUnreachable: (message: string, retryMs: number) => void
  /** The gateway refuses this key or endpoint: trying again does not help. */
  readonly onRefused: (message: string) => void
}

const FIRST_RETRY_MS = 250
const RETRY_MS_MAX = 30_000
/**
 * Attempts in short intervals that end at another node than the missing one, as half of them do behind an address of
 * two nodes: for about 20 s, since a node is listed before it listens. Once it does, it gets requests that it cannot
 * pass on until its agents are there.
 */
const SEARCHES_MAX = 120
/** Data connections that are opened at the same time. */
const DIALLING_MAX = 64
/** How long the agent waits before it replaces a connection that was used. */
const REFILL_MS = 25
const FATAL_STATUSES = new Set([401, 403, 404])
const ALREADY_CONNECTED = 409

/**
 * The connections to all nodes of a gateway. An address may lead to any node, so control connections are opened until
 * every node that is alive has one; a node refuses a second one and says which node it is. Data connections are opened
 * until each node has as many idle ones as it wants, and go to whichever node answers.
 */
export class GatewayLink {
  readonly #options: GatewayLinkOptions
  readonly #links = new Map<string, NodeLink>()
  readonly #controlRetry: BackOff
  /** After attempts that ended at a node with a control connection. */
  readonly #searchRetry: BackOff
  readonly #dataRetry: BackOff
  /** The nodes that the last report named. */
  #nodes: ReadonlySet<string> = new Set()
  #attempts = 0
  #dialling = 0
  #isConnecting = false
  #isStopped = false
  #controlTimer: NodeJS.Timeout | undefined
  #dataTimer: NodeJS.Timeout | undefined
  /** A data connection was refused a moment ago. */
  #isHeldOff = false

  constructor(options: GatewayLinkOptions) {
    this.#options = options
    this.#controlRetry = new BackOff(FIRST_RETRY_MS, RETRY_MS_MAX, options.random)
    this.#searchRetry = new BackOff(FIRST_RETRY_MS, RETRY_MS_MAX, options.random, SEARCHES_MAX)
    this.#dataRetry = new BackOff(FIRST_RETRY_MS / 5, RETRY_MS_MAX / 6, options.random)
    void this.#connect()
  }

  broadcast(message: FromAgent): void {
    for (const link of this.#links.values()) link.send(message)
  }

  /** Closes the control connections and the idle ones; requests keep theirs. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#controlTimer)
    clearTimeout(this.#dataTimer)
    for (const link of this.#links.values()) link.close()
  }

  async #connect(): Promise<void> {
    if (this.#isConnecting || this.#isStopped) return
    this.#isConnecting = true
    clearTimeout(this.#controlTimer)
    const query = new URLSearchParams({
      ...(this.#options.endpoint !== null && { endpoint: this.#options.endpoint }),
      ...(this.#links.size > 0 && { linked: [...this.#links.keys()].join() }),
    })
    const dialled = await this.#dial(`${CONTROL_PATH}?${query}`)
    this.#isConnecting = false
    if (this.#isStopped) {
      if (dialled.kind === 'open') dialled.socket.terminate()
    } else if (dialled.kind === 'open') this.#onControl(dialled.node, dialled.socket)
    else this.#onControlRefused(dialled)
  }

  #onControl(node: string, socket: WebSocket): void {
    this.#links.get(node)?.terminate()
    const link: NodeLink = new NodeLink(node, socket, {
      onMessage: message => this.#onMessage(node, message),
      onWanted: () => this.#fill(),
      onClosed: (code, reason) => this.#onControlClosed(link, code, reason),
    })
    this.#links.set(node, link)
    socket.resume()
    this.#controlRetry.reset()
    for (const message of this.#options.greeting()) link.send(message)
    this.#options.onConnected(node)
  }

  #onControlRefused({ status, message }: Extract<Dialled, { kind: 'refused' }>): void {
    if (status !== null && FATAL_STATUSES.has(status)) {
      this.#options.onRefused(message)
      return
    }
    const hasReachedOther = status === ALREADY_CONNECTED
    const retryMs = (hasReachedOther ? this.#searchRetry : this.#controlRetry).nextMs()
    if (!hasReachedOther && this.#links.size === 0) this.#options.onUnreachable(message, retryMs)
    this.#connectIn(retryMs)
  }

  #onControlClosed(link: NodeLink, code: number, reason: string): void {
    if (this.#links.get(link.node) === link) this.#links.delete(link.node)
    if (this.#isStopped) return
    this.#options.onDisconnected(link.node, reason === '' ? `code ${code}` : reason)
    this.#connectIn(this.#controlRetry.nextMs())
  }

  #onMessage(node: string, message: ToAgent): void {
    if (message.type === 'welcome' || message.type === 'nodes') {
      const before = this.#nodes
      this.#nodes = new Set(message.nodes)
      if (!this.#nodes.isSubsetOf(before)) this.#searchAgain()
      this.#connectIfMissing()
    }
    this.#options.onMessage(node, message)
  }

  /** A new node is looked for at once, whatever the pause after earlier attempts. */
  #searchAgain(): void {
    this.#controlRetry.reset()
    this.#searchRetry.reset()
    clearTimeout(this.#controlTimer)
    this.#controlTimer = undefined
  }

  #connectIfMissing(): void {
    const isMissing = [...this.#nodes].some(node => !this.#links.has(node))
    if (isMissing && this.#controlTimer === undefined) void this.#connect()
  }

  #connectIn(ms: number): void {
    clearTimeout(this.#controlTimer)
    this.#controlTimer = setTimeout(() => {
      this.#controlTimer = undefined
      if (this.#links.size === 0) void this.#connect()
      else this.#connectIfMissing()
    }, ms)
  }

  /**
   * Opens as many data connections as the nodes want: soon, or at once if few are left. A handshake right after a
   * request has taken a connection would delay the first token of that request.
   */
  #fill(): void {
    if ([...this.#links.values()].some(({ isShort }) => isShort)) this.#open()
    else this.#openIn(REFILL_MS)
  }

  #openIn(ms: number): void {
    if (this.#dataTimer !== undefined || this.#isStopped) return
    this.#dataTimer = setTimeout(() => {
      this.#dataTimer = undefined
      this.#open()
    }, ms)
  }

  #open(): void {
    if (this.#isStopped || this.#isHeldOff) return
    const missing = [...this.#links.values()].reduce((sum, link) => sum + Math.max(0, link.missing), 0)
    while (this.#dialling < Math.min(missing, DIALLING_MAX)) {
      this.#dialling++
      void this.#openData()
    }
  }

  async #openData(): Promise<void> {
    const dialled = await this.#dial(DATA_PATH)
    this.#dialling--
    const link = this.#links.get(dialled.node)
    if (dialled.kind === 'open') {
      if (link === undefined || this.#isStopped) dialled.socket.terminate()
      else {
        this.#dataRetry.reset()
        link.adopt(dialled.socket)
        this.#options.onData(dialled.socket)
        dialled.socket.resume()
      }
    } else if (!this.#isHeldOff) {
      // Another node answered, or the gateway is away. The control connection reports the reason.
      this.#isHeldOff = true
      setTimeout(() => {
        this.#isHeldOff = false
        this.#open()
      }, this.#dataRetry.nextMs()).unref()
    }
    this.#open()
  }

  #dial(path: string): Promise<Dialled> {
    const { gateways, key, agentId } = this.#options
    const gateway = elementAt(gateways, this.#attempts++ % gateways.length)
    return dial({ gateway, path, key, agentId })
  }
}
