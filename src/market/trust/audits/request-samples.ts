import type { Caller } from '../../../base/domain/caller.ts'
import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { Receipt, Ticket } from '../../../base/domain/handoff.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import type { NameConversation } from './seen-conversations.ts'
import { identifiersOf, jsonLengthMax, KEPT_PROMPT_BYTES_MAX, type SharedBody, sharedBody } from './shared-body.ts'
import { createSharedRequests, type Manners, type RecentManners, type SharedRequests } from './shared-requests.ts'

/** What audits learn from the requests of customers. */
export interface RequestSamples {
  readonly shared: SharedRequests
  readonly manners: RecentManners
  /** See OnServed in chat/complete.ts. */
  readonly onServed: (
    request: ServedRequest,
    ticket: Ticket,
    receipt: Receipt,
    generated: { readonly text: () => string },
  ) => void
  /** Calls the listener for each answer to a customer that shares its requests. */
  listen(listener: ServedListener): void
}

interface ServedRequest {
  readonly caller: Caller
  readonly job: ChatJob
}

/** @param body returns what asks the request once more; null: it is never asked again */
export type ServedListener = (
  request: ServedRequest,
  ticket: Ticket,
  receipt: Receipt,
  text: () => string,
  body: () => SharedBody | null,
) => void

/** The longest text of messages and tools that is asked once more. */
const PROMPT_BYTES_MAX = 32_768
/** Clients send names and ids, but nothing bounds these fields. */
const IDENTIFIERS_LENGTH_MAX = 1_024

/** @param random uniform in [0, 1) */
export function createRequestSamples(
  clock: Clock,
  random: () => number,
  nameConversation: NameConversation,
): RequestSamples {
  const shared = createSharedRequests(clock)
  const manners = createRecentManners(random)
  let listener: ServedListener | null = null
  return {
    shared,
    manners,
    listen(added) {
      listener = added
    },
    onServed(request, ticket, receipt, { text }) {
      const { caller, job } = request
      if (job.task !== 'chat' || receipt.offer === null) return
      manners.note(job, clock.monotonicMs())
      if (!caller.sharesRequests) return
      let made: SharedBody | null | undefined
      const body = () => {
        if (made === undefined) made = sharedBody(job, PROMPT_BYTES_MAX)
        return made
      }
      listener?.(request, ticket, receipt, text, body)
      if (job.promptTextBytes > KEPT_PROMPT_BYTES_MAX) return
      const identifiers = identifiersOf(job)
      const { customerId } = caller
      const conversation = nameConversation(customerId, job)
      const shareable = conversation === null ? null : body()
      if (conversation === null || shareable === null) return
      if (shareable.jsonLength > jsonLengthMax(KEPT_PROMPT_BYTES_MAX)) return
      if (JSON.stringify(identifiers).length > IDENTIFIERS_LENGTH_MAX) return
      const { modelId, endpoint } = receipt.offer
      const { constraints } = job
      shared.add({
        customerId,
        conversation,
        body: shareable.fields,
        identifiers,
        modelId,
        hosterId: endpoint.hosterId,
        constraints,
      })
    },
  }
}

const KEPT_MAX = 500
/**
 * More often, nothing is kept: a busy process would forget everything but its last second, and pay for it with every
 * request.
 */
const KEPT_EVERY_MS = 20

/** The numbers of a request that say nothing about its text. */
const fieldNames = ['temperature', 'top_p', 'presence_penalty', 'frequency_penalty'] as const

/** @param random uniform in [0, 1) */
export function createRecentManners(random: () => number): RecentManners {
  const kept: Manners[] = []
  let next = 0
  let [lastMs, lastKeptMs] = [-Infinity, -Infinity]
  return {
    note(job, atMs) {
      const gapMs = atMs - lastMs
      lastMs = atMs
      // The first one has no gap.
      if (gapMs === Infinity || atMs < lastKeptMs + KEPT_EVERY_MS) return
      lastKeptMs = atMs
      kept[next] = { fields: fieldsOf(job), gapMs }
      next = (next + 1) % KEPT_MAX
    },
    draw: () => kept[Math.floor(random() * kept.length)],
  }
}

/** Round numbers only: a customer of a hoster could mark audits by an odd one. */
function fieldsOf({ forward, maxTokens, stream }: ChatJob): Manners['fields'] {
  const fields: Record<string, number | boolean> = {}
  for (const name of fieldNames) {
    const value = forward[name]
    if (typeof value === 'number') fields[name] = Math.round(value * 10) / 10
  }
  if (maxTokens !== null) fields.max_tokens = 2 ** Math.round(Math.log2(maxTokens))
  if (stream) fields.stream = true
  return fields
}
