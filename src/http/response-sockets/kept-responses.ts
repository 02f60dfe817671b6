import { type LinkedItem, LinkedSet, valueAt } from '../../base/runtime/collections.ts'
import type { ByteBudget } from '../../base/runtime/counted-memory.ts'

const nothing = Buffer.alloc(0)

/** The part of the memory budget that kept conversations may take: requests need the rest. */
const SHARE_OF_BUDGET = 1 / 8
const SHARE_OF_CUSTOMER = 1 / 4

/** The conversation up to the last response of a lane, which the next request may continue. */
export class KeptResponse implements LinkedItem<KeptResponse> {
  older: KeptResponse | undefined = undefined
  newer: KeptResponse | undefined = undefined
  /** False when it has been forgotten. */
  isListed = false
  readonly id: string
  readonly customerId: string
  /** See continued-input.ts. Empty once it has been forgotten: whoever still holds this object must not hold the memory. */
  items: Buffer

  constructor(id: string, customerId: string, items: Buffer) {
    this.id = id
    this.customerId = customerId
    this.items = items
  }
}

/**
 * The conversations that the WebSockets of this node keep, within a part of its memory. The oldest is forgotten for a
 * new one: its client gets `previous_response_not_found` and sends the whole conversation.
 */
export class KeptResponses {
  readonly #kept = new LinkedSet<KeptResponse>()
  readonly #customers = new Map<string, { bytes: number; readonly kept: Set<KeptResponse> }>()
  readonly #budget: ByteBudget
  #bytes = 0

  /** @param budget of the node, which pays for the memory */
  constructor(budget: ByteBudget) {
    this.#budget = budget
  }

  get usedBytes(): number {
    return this.#bytes
  }

  /** Keeps a conversation, or not if it is too large. */
  keep(response: KeptResponse): void {
    const { customerId, items } = response
    const bytesMax = this.#budget.maxBytes * SHARE_OF_BUDGET
    const ofCustomerMax = bytesMax * SHARE_OF_CUSTOMER
    if (items.length > ofCustomerMax) return
    const own = this.#customers.get(customerId) ?? { bytes: 0, kept: new Set() }
    for (const oldest of own.kept) {
      if (own.bytes + items.length <= ofCustomerMax) break
      this.forget(oldest)
    }
    for (const oldest of this.#kept) {
      if (this.#bytes + items.length <= bytesMax) break
      this.forget(oldest)
    }
    if (!this.#budget.take(items.length)) return
    this.#customers.set(customerId, own)
    own.kept.add(response)
    own.bytes += items.length
    this.#bytes += items.length
    this.#kept.add(response)
  }

  forget(response: KeptResponse): void {
    if (!response.isListed) return
    const { customerId, items } = response
    this.#kept.remove(response)
    this.#bytes -= items.length
    this.#budget.give(items.length)
    response.items = nothing
    const own = valueAt(this.#customers, customerId)
    own.kept.delete(response)
    own.bytes -= items.length
    if (own.kept.size === 0) this.#customers.delete(customerId)
  }
}
