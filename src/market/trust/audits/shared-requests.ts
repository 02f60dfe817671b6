import type { ChatJob } from '../../../base/domain/chat-job.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../base/domain/durations.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'

/** A request of a customer that shares its requests for audits. Kept in memory for up to an hour, never stored. */
export interface SharedRequest {
  readonly customerId: string
  /** See NameConversation. */
  readonly conversation: string
  /** The body of /v1/chat/completions without `model`. */
  readonly body: Readonly<Record<string, unknown>>
  /**
   * The fields that name the person or the conversation. A hoster gets pseudonyms for them, and a reference gets none.
   */
  readonly identifiers?: Readonly<Record<string, unknown>>
  readonly modelId: string
  /** The hoster that answered it; null for a server of the operator. */
  readonly hosterId: string | null
  readonly constraints: ChatJob['constraints']
}

/** The latest requests that customers share, of this process. */
export interface SharedRequests {
  add(request: SharedRequest): void
  /** The conversations of which a request of the model is kept. */
  conversations(modelId: string): readonly string[]
  /**
   * Takes one that the hoster has not answered, of a customer that is not related to it; undefined if there is none.
   * Each is taken once.
   *
   * @param related the customers that are related to the hoster
   * @param mayTake returns false for requests that stay for others
   */
  take(
    modelId: string,
    hosterId: string,
    related: ReadonlySet<string>,
    mayTake?: (request: SharedRequest) => boolean,
  ): SharedRequest | undefined
  /** Whether a request of the model was taken for the hoster in the last 24 hours. */
  hasTaken(modelId: string, hosterId: string): boolean
  /** Whether the customer still shares: false when it has taken its consent back since a request of it was taken. */
  isShared(customerId: string): boolean
  /** The customers whose requests are kept, or were taken within an hour. */
  customers(): readonly string[]
  /** Drops requests that were kept for 59 minutes, and customers whose last request was taken 59 minutes ago. */
  dropExpired(): void
  /** Drops the requests of all other customers. */
  keepOnly(customers: ReadonlySet<string>): void
}

/** How requests of customers are asked, without their text. */
export interface Manners {
  /** The fields of the body besides the messages and the tools, such as `temperature`, `max_tokens` and `stream`. */
  readonly fields: Readonly<Record<string, number | boolean>>
  /** Time since the request before it, of any customer, ms. */
  readonly gapMs: number
}

/** The manners of the latest requests of this process. */
export interface RecentManners {
  note(job: ChatJob, atMs: number): void
  /** Draws those of one request; undefined before the second. */
  draw(): Manners | undefined
}

/** About 3 MB of text at most. */
const KEPT_MAX = 200
const KEPT_OF_MODEL_MAX = 50
/** The largest part that is of one customer: audits must not depend on the prompts of one. */
const CUSTOMER_PART = 4
/** They are dropped once a minute, and none is kept for longer than an hour. */
const KEPT_MS = HOUR_MS - MINUTE_MS

const TAKEN_LATELY_MS = DAY_MS

interface Kept extends SharedRequest {
  readonly untilMs: number
}

export function createSharedRequests(clock: Clock): SharedRequests {
  /** The oldest first. */
  let kept: Kept[] = []
  /** When a request was last taken, by hoster and model. */
  const takenMs = new Map<string, number>()
  /** The customers whose requests were taken, until when they may be in use. */
  const inUse = new Map<string, number>()

  /** Drops the oldest ones that `isMeant` is true for, so that fewer than `max` remain. */
  const makeRoom = (max: number, isMeant: (request: Kept) => boolean) => {
    let excess = kept.filter(isMeant).length - max + 1
    if (excess > 0) kept = kept.filter(request => !isMeant(request) || excess-- <= 0)
  }
  function dropExpired(): void {
    const nowMs = clock.monotonicMs()
    kept = kept.filter(({ untilMs }) => untilMs > nowMs)
    for (const [customerId, untilMs] of inUse) if (untilMs <= nowMs) inUse.delete(customerId)
  }

  return {
    dropExpired,
    add(request) {
      const { customerId, modelId, conversation } = request
      // A later request of a conversation contains the earlier ones.
      kept = kept.filter(other => other.conversation !== conversation)
      const isOfModel = (other: Kept) => other.modelId === modelId
      const isOfCustomer = (other: Kept) => other.customerId === customerId
      makeRoom(Math.floor(KEPT_OF_MODEL_MAX / CUSTOMER_PART), other => isOfModel(other) && isOfCustomer(other))
      makeRoom(KEPT_MAX / CUSTOMER_PART, isOfCustomer)
      makeRoom(KEPT_OF_MODEL_MAX, isOfModel)
      makeRoom(KEPT_MAX, () => true)
      kept.push({ ...request, untilMs: clock.monotonicMs() + KEPT_MS })
    },
    conversations: modelId => kept.filter(other => other.modelId === modelId).map(({ conversation }) => conversation),
    take(modelId, hosterId, related, mayTake = () => true) {
      dropExpired()
      const nowMs = clock.monotonicMs()
      const at = kept.findIndex(
        request =>
          request.modelId === modelId &&
          request.hosterId !== hosterId &&
          !related.has(request.customerId) &&
          mayTake(request),
      )
      const taken = at === -1 ? undefined : kept.splice(at, 1)[0]
      if (taken !== undefined) {
        takenMs.set(`${hosterId} ${modelId}`, nowMs)
        inUse.set(taken.customerId, nowMs + KEPT_MS)
      }
      return taken
    },
    hasTaken: (modelId, hosterId) =>
      (takenMs.get(`${hosterId} ${modelId}`) ?? -Infinity) > clock.monotonicMs() - TAKEN_LATELY_MS,
    isShared: customerId => inUse.has(customerId),
    customers: () => [...new Set([...kept.map(({ customerId }) => customerId), ...inUse.keys()])],
    keepOnly(customers) {
      for (const customerId of inUse.keys()) if (!customers.has(customerId)) inUse.delete(customerId)
      kept = kept.filter(({ customerId }) => customers.has(customerId))
    },
  }
}
