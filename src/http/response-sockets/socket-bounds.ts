import { ApiError } from '../../base/domain/errors.ts'

const PER_CUSTOMER_MAX = 256
/** The least that a node allows, however few connections it has. */
const LEAST = { node: 16, customer: 8 } as const

/**
 * Bounds the WebSockets of `/v1/responses` on this node: a quarter of its connections in all, and a quarter of these for
 * one customer. Where all places are taken, a customer gets one of a customer with more WebSockets that serves nothing.
 */
export class SocketBounds {
  readonly #nodeMax: number
  readonly #perCustomerMax: number
  readonly #closeIdle: (customerId: string) => boolean
  readonly #counts = new Map<string, number>()
  #open = 0

  /**
   * @param connectionsMax of the node
   * @param closeIdle closes a WebSocket of a customer that serves nothing. Returns whether there was one
   */
  constructor(connectionsMax: number, closeIdle: (customerId: string) => boolean) {
    this.#closeIdle = closeIdle
    this.#nodeMax = Math.max(LEAST.node, Math.floor(connectionsMax / 4))
    this.#perCustomerMax = Math.max(LEAST.customer, Math.min(PER_CUSTOMER_MAX, Math.floor(this.#nodeMax / 4)))
  }

  /** Counts a WebSocket. Throws `rate_limit_exceeded` at a limit. Returns a function that ends it. */
  add(customerId: string): () => void {
    const own = this.#countOf(customerId)
    if (own >= this.#perCustomerMax) {
      throw tooMany(`Your account has ${own} WebSockets open, the most that this node allows. Close some.`)
    }
    if (this.#open >= this.#nodeMax && !this.#makeRoom(own)) {
      throw tooMany(`This node has ${this.#open} WebSockets open, the most that it allows. Try again, or use POST.`)
    }
    this.#open++
    this.#counts.set(customerId, own + 1)
    let isOpen = true
    return () => {
      if (!isOpen) return
      isOpen = false
      this.#open--
      const left = this.#countOf(customerId) - 1
      if (left === 0) this.#counts.delete(customerId)
      else this.#counts.set(customerId, left)
    }
  }

  #countOf(customerId: string): number {
    return this.#counts.get(customerId) ?? 0
  }

  #makeRoom(own: number): boolean {
    const larger = [...this.#counts].filter(([, count]) => count > own + 1).sort(([, a], [, b]) => b - a)
    return larger.some(([customerId]) => this.#closeIdle(customerId))
  }
}

function tooMany(message: string): ApiError {
  return new ApiError('rate_limit_exceeded', { message, retryAfterS: 5 })
}
