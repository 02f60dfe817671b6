import type { Pool } from '../../../base/db/pool.ts'
import type { ChatJob } from '../../../base/domain/chat-job.ts'
import { HOUR_MS } from '../../../base/domain/durations.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import { outputCap } from '../../../base/domain/request-bounds.ts'
import type { Log } from '../../../base/runtime/log.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import { compareAnswer } from '../compare-answer.ts'
import { recordCompared } from '../evidence/compared-store.ts'
import type { AskedAnswer } from './ask-offer.ts'
import { askReferenceLike, isPlain } from './ask-reference.ts'
import type { RelatedCustomers } from './related-customers.ts'
import type { ServedListener } from './request-samples.ts'

export interface ShadowDeps {
  readonly pool: Pool
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** The least time between two comparisons of one endpoint. */
  readonly pauseMs: number
  /** Returns the server that answers of the offer are compared with. */
  readonly referenceOf: (offer: Offer) => Offer | undefined
  /** Whether the reference gets every field of the request that the server of the offer got. */
  readonly isAskedAlike: (job: ChatJob, offer: Offer, reference: Offer) => boolean
  readonly relatedCustomers: RelatedCustomers
  /**
   * Sends a chat request to one offer, on the account of the house. Null: the house pays no more for requests of the
   * customer, or not so much. Rejects with ApiError.
   */
  readonly ask: (customerId: string, offer: Offer, body: object) => Promise<AskedAnswer | null>
  readonly log: Pick<Log, 'debug'>
}

/** Compares answers that hosters gave to customers with answers of a reference, after they were delivered. */
export interface Shadow {
  /** Call it for requests of customers that share them. Returns at once. */
  readonly onServed: ServedListener
  /** Starts no more comparisons; resolves when the running ones have ended. */
  stop(): Promise<void>
}

const ANSWER_BYTES_MAX = 65_536
/** Comparisons at once in this process. */
const RUNNING_MAX = 2
/** Not each first request after a pause is compared: a hoster could answer those honestly. */
const DRAWN_PART = 0.5
/** Of requests with a temperature above 0, fewer are drawn: their answers tell less. */
const DRAWN_PART_SAMPLED = 0.25
/**
 * How long a reference is not asked after the accounts of the house had too little credit for it. A cheaper one may
 * still be asked.
 */
const NO_CREDIT_PAUSE_MS = 600_000
/**
 * How long answers of a hoster to a customer are not compared after one of them did not count. Otherwise they could
 * take the turns of the endpoint from others.
 */
const CUSTOMER_PAUSE_MS = 600_000
/** How long a reference is not asked for log probabilities after an answer without them. */
const NO_LOGPROBS_MS = HOUR_MS

/** A request that was chosen, with the answer of the hoster. */
interface Chosen {
  readonly customerId: string
  readonly offer: Offer
  readonly hosterId: string
  readonly reference: Offer
  /** Of the reference. */
  readonly body: Record<string, unknown>
  readonly temperature: number | undefined
  readonly text: string
}

export function createShadow(deps: ShadowDeps): Shadow {
  const { pool, clock, random, pauseMs, log } = deps
  /** When the next answer of an endpoint may be compared. */
  const nextMs = new Map<string, number>()
  const noLogprobsUntilMs = new Map<string, number>()
  /** By the endpoint of the reference. */
  const noCreditUntilMs = new Map<string, number>()
  /** By hoster and customer. */
  const restsUntilMs = new Map<string, number>()
  const running = new Set<Promise<void>>()
  let isStopped = false

  const compare = async (chosen: Chosen) => {
    const { customerId, offer, hosterId, reference, body, temperature, text } = chosen
    if ((await deps.relatedCustomers(hosterId)).has(customerId)) return rest(chosen)
    let isPaid = true
    const ask = async (asked: object) => {
      const answer = isPaid ? await deps.ask(customerId, reference, asked) : null
      if (answer === null) isPaid = false
      return answer
    }
    const answers = await askReferenceLike(body, ask, asked => askLikeliest(reference, asked, ask))
    if (!isPaid) return rest(chosen)
    const comparison = answers.every(isPlain) ? compareAnswer(text, answers, temperature) : null
    if (comparison === null) return
    const { modelId } = offer
    const isRecorded = await recordCompared(pool, {
      ...comparison,
      source: 'shadow',
      hosterId,
      modelId,
      customerId,
      atMs: clock.epochMs(),
    })
    if (!isRecorded) rest(chosen)
  }

  /** Leaves the answers of the hoster to this customer to others for a while. */
  const rest = ({ customerId, hosterId, offer }: Chosen) => {
    const nowMs = clock.monotonicMs()
    for (const [key, untilMs] of restsUntilMs) if (untilMs <= nowMs) restsUntilMs.delete(key)
    restsUntilMs.set(`${hosterId} ${customerId}`, nowMs + CUSTOMER_PAUSE_MS)
    nextMs.delete(offer.endpoint.endpointId)
  }

  /** Null: the reference has no log probabilities, or nobody pays. */
  const askLikeliest = async (
    reference: Offer,
    body: object,
    ask: (body: object) => Promise<AskedAnswer | null>,
  ): Promise<AskedAnswer | null> => {
    const { offerId } = reference
    if (clock.monotonicMs() < (noLogprobsUntilMs.get(offerId) ?? -Infinity)) return null
    const noteNone = () => noLogprobsUntilMs.set(offerId, clock.monotonicMs() + NO_LOGPROBS_MS)
    try {
      const answer = await ask(body)
      if (answer?.topTokens.length === 0 && answer.text !== '') noteNone()
      return answer
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'upstream_rejected') throw error
      noteNone()
      return null
    }
  }

  const start = (chosen: Chosen) => {
    const comparing = compare(chosen).catch((error: unknown) => {
      if (error instanceof ApiError && error.row.status === 402)
        noCreditUntilMs.set(chosen.reference.endpoint.endpointId, clock.monotonicMs() + NO_CREDIT_PAUSE_MS)
      // The error of a refused request can repeat a part of it, so only its code is logged.
      const reason = error instanceof ApiError ? { code: error.code } : { err: error }
      log.debug({ offerId: chosen.offer.offerId, ...reason }, 'an answer was not compared')
    })
    running.add(comparing)
    void comparing.then(() => running.delete(comparing))
  }

  return {
    onServed({ caller: { customerId }, job }, ticket, { offer, finishReason }, text, shared) {
      const nowMs = clock.monotonicMs()
      if (offer === null || offer.endpoint.hosterId === null || running.size >= RUNNING_MAX) return
      const { endpointId, hosterId } = offer.endpoint
      if (isStopped || nowMs < (nextMs.get(endpointId) ?? -Infinity)) return
      if (nowMs < (restsUntilMs.get(`${hosterId} ${customerId}`) ?? -Infinity)) return
      const temperature = temperatureOf(job)
      if (!endedWithText(job, finishReason)) return
      if (random() >= (temperature === 0 ? DRAWN_PART : DRAWN_PART_SAMPLED)) return
      const body = shared()?.fields
      if (body === undefined) return
      nextMs.set(endpointId, nowMs + pauseMs)
      const reference = deps.referenceOf(offer)
      if (reference === undefined || !deps.isAskedAlike(job, offer, reference)) return
      if (nowMs < (noCreditUntilMs.get(reference.endpoint.endpointId) ?? -Infinity)) return
      const answered = text()
      if (answered === '' || Buffer.byteLength(answered) > ANSWER_BYTES_MAX) return
      const { stream: _, seed: __, ...asked } = body
      start({
        customerId,
        offer,
        hosterId,
        reference,
        temperature,
        text: answered,
        body: { ...asked, max_tokens: outputCap(offer, job, ticket.maxTokens) },
      })
    },
    async stop() {
      isStopped = true
      await Promise.all(running)
    },
  }
}

function temperatureOf({ forward: { temperature } }: ChatJob): number | undefined {
  return typeof temperature === 'number' ? temperature : undefined
}

/**
 * Whether a hoster answered with text. A request without tools cannot be answered with calls, whatever its server says.
 */
function endedWithText({ features }: ChatJob, finishReason: string | null): boolean {
  if (finishReason === 'content_filter') return false
  return !features.has('tools') || (finishReason !== 'tool_calls' && finishReason !== 'function_call')
}
