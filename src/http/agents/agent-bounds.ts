import { ApiError } from '../../base/domain/errors.ts'
import { networkOf } from '../../base/runtime/client-address.ts'

/** The key, hoster and owners of a connection. */
export interface AgentConnection {
  readonly keyId: string
  readonly hosterId: string
  /** The owners of the hoster. */
  readonly ownerIds: readonly string[]
  /** Whether the operator lets the hoster serve customers. */
  readonly isActive: boolean
}

const PER_KEY_MAX = 2_048
/** Above the bound of most nodes: behind a proxy, all agents may come from one network. */
const PER_NETWORK_MAX = 4_096
/** For a hoster that is not active yet: enough for the checks that come before. */
const PER_NEW_HOSTER_MAX = 32

/** The least that a node allows, however few connections it has. */
const LEAST = { node: 32, hoster: 16, newcomers: 16 } as const

/**
 * Bounds the connections of agents to this node, by key, hoster, owner, network and in all, so that they never take the
 * place of customers' connections: an agent always has a request to wait for, so none of its connections counts as
 * silent.
 *
 * Where all places are taken, a hoster with fewer connections than another one gets a place of its: one that carries no
 * request.
 */
export class AgentBounds {
  /** The most connections with one key. */
  readonly perKeyMax: number
  readonly #nodeMax: number
  readonly #perKey: ConnectionCounts
  readonly #perHoster: ConnectionCounts
  readonly #perOwner: ConnectionCounts
  readonly #perNetwork = new ConnectionCounts(PER_NETWORK_MAX, 'connections from this network')
  readonly #perNewHoster: ConnectionCounts
  readonly #newHosters: ConnectionCounts
  readonly #closeIdle: (hosterId: string) => boolean
  #open = 0

  /**
   * @param connectionsMax of the node, for clients and agents together
   * @param closeIdle closes one connection of a hoster that carries no request. Returns whether there was one
   */
  constructor(connectionsMax: number, closeIdle: (hosterId: string) => boolean) {
    this.#closeIdle = closeIdle
    this.#nodeMax = Math.max(LEAST.node, Math.floor(connectionsMax / 2))
    const perHoster = Math.max(LEAST.hoster, Math.floor(this.#nodeMax / 2))
    this.perKeyMax = Math.min(PER_KEY_MAX, perHoster)
    this.#perKey = new ConnectionCounts(this.perKeyMax, 'connections with this key')
    this.#perHoster = new ConnectionCounts(perHoster, 'connections of this hoster')
    this.#perOwner = new ConnectionCounts(perHoster, 'connections of hosters of this owner')
    this.#perNewHoster = new ConnectionCounts(PER_NEW_HOSTER_MAX, 'connections of this hoster before it is active')
    const newcomers = Math.max(LEAST.newcomers, Math.floor(this.#nodeMax / 8))
    this.#newHosters = new ConnectionCounts(newcomers, 'connections of hosters that are not active')
  }

  /** Counts a connection before its key is known. Throws as `add`. */
  addStranger(address: string): () => void {
    return this.#perNetwork.add(networkOf(address))
  }

  /** Counts a connection. Throws `rate_limit_exceeded` at a limit. Returns a function that ends it. */
  add({ keyId, hosterId, ownerIds, isActive }: AgentConnection): () => void {
    const counted: (() => void)[] = []
    const end = () => {
      for (const each of counted.splice(0)) each()
    }
    try {
      counted.push(this.#perKey.add(keyId))
      if (!isActive) {
        counted.push(this.#perNewHoster.add(hosterId))
        counted.push(this.#newHosters.add(''))
      }
      for (const owner of ownerIds) counted.push(this.#perOwner.add(owner))
      this.#makeRoom(hosterId)
      counted.push(this.#perHoster.add(hosterId))
    } catch (error) {
      end()
      throw error
    }
    this.#open++
    counted.push(() => void this.#open--)
    return end
  }

  /** Returns how many connections of a hoster are open. */
  countOf(hosterId: string): number {
    return this.#perHoster.count(hosterId)
  }

  #makeRoom(hosterId: string): void {
    if (this.#open < this.#nodeMax) return
    const own = this.#perHoster.count(hosterId)
    const larger = this.#perHoster.largest().filter(([, count]) => count > own + 1)
    if (larger.some(([other]) => this.#closeIdle(other))) return
    throw new ApiError('rate_limit_exceeded', {
      message: `Agents have ${this.#nodeMax} connections open, the most that this node allows. Try again, or another node.`,
      retryAfterS: 5,
    })
  }
}

/** Counts open connections by a name, such as an address or a key, and refuses those above a limit. */
export class ConnectionCounts {
  readonly #max: number
  readonly #what: string
  readonly #counts = new Map<string, number>()

  /** @param what the counted connections, for the error: `connections from this address` */
  constructor(max: number, what: string) {
    this.#max = max
    this.#what = what
  }

  count(name: string): number {
    return this.#counts.get(name) ?? 0
  }

  /** Returns the names with their counts, the largest first. */
  largest(): [name: string, count: number][] {
    return [...this.#counts].sort(([, a], [, b]) => b - a)
  }

  /** Throws `rate_limit_exceeded` at the limit. Returns a function that ends the connection. */
  add(name: string): () => void {
    const count = this.#counts.get(name) ?? 0
    if (count >= this.#max) {
      throw new ApiError('rate_limit_exceeded', {
        message: `Agents have ${this.#max} ${this.#what} open, the most that this node allows. Close some.`,
        retryAfterS: 5,
      })
    }
    this.#counts.set(name, count + 1)
    return () => {
      const left = (this.#counts.get(name) ?? 0) - 1
      if (left === 0) this.#counts.delete(name)
      else this.#counts.set(name, left)
    }
  }
}

/** Ten announcements of a thousand models. Most agents announce a few models, in less than one KiB. */
const BYTES_PER_HOSTER_MAX = 4 * 1024 * 1024
const BYTES_MAX = 64 * 1024 * 1024

/** Bounds what a node keeps of all announcements: in memory, one takes about three times its length. */
export class AnnouncementBudget {
  readonly #perHoster = new Map<string, number>()
  #bytes = 0

  /** Replaces `before` bytes of a hoster by `after`. Returns false, and changes nothing, if that is too much. */
  replace(hosterId: string, before: number, after: number): boolean {
    const known = this.#perHoster.get(hosterId) ?? 0
    const [ofHoster, ofAll] = [known - before + after, this.#bytes - before + after]
    if (after > before && (ofHoster > BYTES_PER_HOSTER_MAX || ofAll > BYTES_MAX)) return false
    if (ofHoster === 0) this.#perHoster.delete(hosterId)
    else this.#perHoster.set(hosterId, ofHoster)
    this.#bytes = ofAll
    return true
  }
}

/** All agents of a hoster come back at once when a node restarts. */
const BURST_MAX = 256
const PER_SECOND = 4

/**
 * Limits how often the agents of a hoster open control connections: each one asks the database three questions, and
 * notes that the hoster serves. An agent opens one and keeps it.
 */
export class ConnectRate {
  readonly #left = new Map<string, { free: number; sinceMs: number }>()

  /** Counts an attempt at `nowMs`. Returns whether it is one too many. Refused ones do not count. */
  isFloodAfter(hosterId: string, nowMs: number): boolean {
    const entry = this.#left.get(hosterId) ?? { free: BURST_MAX, sinceMs: nowMs }
    const free = refilled(entry, nowMs)
    this.#left.set(hosterId, { free: free >= 1 ? free - 1 : free, sinceMs: nowMs })
    return free < 1
  }

  /** Forgets the hosters that may open as many as ever. Call it now and then. */
  forgetRested(nowMs: number): void {
    for (const [hosterId, entry] of this.#left) if (refilled(entry, nowMs) === BURST_MAX) this.#left.delete(hosterId)
  }

  get size(): number {
    return this.#left.size
  }
}

function refilled({ free, sinceMs }: { readonly free: number; readonly sinceMs: number }, nowMs: number): number {
  return Math.min(BURST_MAX, free + ((nowMs - sinceMs) * PER_SECOND) / 1_000)
}
