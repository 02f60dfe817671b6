import { ApiError } from '../../base/domain/errors.ts'
import { networkOf } from '../../base/runtime/client-address.ts'
import { ConnectionCounts } from './connection-counts.ts'

/** The key, hoster and owners of a connection. */
export interface AgentConnection {
  readonly keyId: string
  readonly hosterId: string
  /** The people who own the hoster. */
  readonly ownerIds: readonly string[]
  /** Whether the operator lets the hoster serve customers. */
  readonly isActive: boolean
}

const PER_KEY_MAX = 2_048
/** Above the bound of most nodes: behind a proxy, all agents may come from one network. */
const PER_NETWORK_MAX = 4_096
/** Of a hoster that is not active: enough for the checks before it is. */
const PER_NEW_HOSTER_MAX = 32

/** The least that a node allows, however few connections it has. */
const LEAST = { node: 32, hoster: 16, newcomers: 16 } as const

/**
 * Bounds the connections of agents to this node, by key, hoster, owner, network and in all, so that they never take the place of
 * customers' connections: an agent always has a request to wait for, so none of its connections counts as silent.
 *
 * Where all places are taken, a hoster with fewer connections than another one gets a place of its: one that carries no request.
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
      if (!isActive) counted.push(this.#perNewHoster.add(hosterId), this.#newHosters.add(''))
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
