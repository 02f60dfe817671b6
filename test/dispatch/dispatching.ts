import type { LookupFunction } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { healthWith } from '../../sim/health-with.ts'
import { plainAccess } from '../../src/base/domain/caller.ts'
import type { ChatJob } from '../../src/base/domain/chat-job.ts'
import type { ChatChunk } from '../../src/base/domain/completion.ts'
import type { Answer, Plan } from '../../src/base/domain/handoff.ts'
import type { CustomerBreakers, Health } from '../../src/base/domain/health.ts'
import type { Endpoint, Offer } from '../../src/base/domain/offer.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { type Clock, systemClock } from '../../src/base/runtime/scheduler.ts'
import { createCustomerBreakers } from '../../src/market/supply/breakers/customer-breakers.ts'
import { createHealth } from '../../src/market/supply/breakers/health.ts'
import { attemptLimits } from '../../src/request/dispatch/attempt.ts'
import { createRetryBudget } from '../../src/request/dispatch/attempt-log.ts'
import { dispatch } from '../../src/request/dispatch/dispatch.ts'
import { parseChatRequest } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { chatStream } from '../../src/wire/dialects/chat/chat-stream.ts'
import { CheckTime } from '../../src/wire/dialects/fit/check-time.ts'
import type { ExchangeLimits } from '../../src/wire/upstreams/exchange-request.ts'
import { UpstreamClient } from '../../src/wire/upstreams/upstream-client.ts'
import { GENEROUS_TIMEOUTS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'

export const requestId = '0198c0de-0000-7000-8000-00000000abcd'
/** The default customer. */
export const ann = '0198c0de-0000-7000-8000-000000000001'
export const completionId = `chatcmpl-${requestId}`

/** The time limits of a request with a minute left that has no other offer. */
export function limitsOf({ timeouts }: Endpoint, stream: boolean): ExchangeLimits {
  return attemptLimits(timeouts, { stream, maxTokens: 0 }, 60_000, false)
}

/** An offer of `public-model` at an address; the endpoint is named after `name`. */
export function offerAt(
  baseUrl: string,
  more: { name?: string; modelId?: string; upstreamModel?: string; endpoint?: Partial<Endpoint> } = {},
): Offer {
  const { name = 'one', modelId = 'public-model', upstreamModel = 'their-model' } = more
  const endpoint: Endpoint = {
    endpointId: name,
    kind: 'local',
    hosterId: null,
    name,
    baseUrl,
    apiKey: 'upstream-secret',
    dialect: {
      maxTokensField: 'max_tokens',
      developerToSystem: true,
      streamOptions: true,
      forwardFields: [],
      dropFields: [],
      toolCallIds: 'any',
      hidesReasoning: false,
      base64Embeddings: true,
      keyHeader: 'authorization',
    },
    timeouts: GENEROUS_TIMEOUTS,
    trustScore: null,
    hosterShareBps: 0,
    demo: false,
    egress: 'any',
    ...more.endpoint,
  }
  return {
    offerId: `${name}/${modelId}`,
    endpoint,
    modelId,
    upstreamModel,
    price: { inputPicoPerToken: 1n, outputPicoPerToken: 1n },
    contextTokens: 8_192,
    maxOutputTokens: 1_024,
    features: new Set(),
  }
}

export function jobOf(body: object = {}): ChatJob {
  const whole = { model: 'public-model', messages: [{ role: 'user', content: 'Hello' }], ...body }
  return parseChatRequest(Buffer.from(JSON.stringify(whole)))
}

export function planOf(offers: readonly Offer[], customerId = ann): Plan {
  return {
    offers,
    ticket: {
      requestId,
      hold: { leaseId: requestId, nanos: 1n, isOpen: true },
      caller: {
        customerId,
        keyId: '0198c0de-0000-7000-8000-000000000002',
        email: 'ann@example.com',
        accountTier: 'free',
        sharesRequests: false,
        prices: null,
        access: plainAccess,
        limits: { requestsPerMinute: 1, requestsPerDay: 1, dailySpendCapNanos: 1n },
      },
      startedAtEpochMs: 1_750_000_000_999,
      startedMonotonicMs: 0,
      label: null,
      models: ['public-model'],
      eligible: offers,
      excluded: [],
      maxTokens: 256,
      clamp: null,
    },
  }
}

export interface Dispatching {
  /** Health as `ann` sees it. */
  readonly health: Health
  readonly healthOf: CustomerBreakers['of']
  /** Reports to health in order: `success offerId` or `failure offerId outcome`. */
  readonly reports: readonly string[]
  /** The times of writing requests, in order. */
  readonly worked: readonly { customerId: string; workMs: number }[]
  send(offers: Offer | readonly Offer[], body?: object, signal?: AbortSignal, customerId?: string): Promise<Answer>
  sendJob(offer: Offer, job: ChatJob): Promise<Answer>
  close(): Promise<void>
}

/** Dispatching for the tests of this file, or a new one for each test. */
export function useDispatching(scope?: 'file' | 'test'): Dispatching {
  return useResource(startDispatching, dispatching => dispatching.close(), scope)
}

/** A tick of the idle connections that makes their quarantine short. */
export const TICK_MS = 1

/** Resolves when the connections that are idle now have left the quarantine, at this tick. */
export async function quarantineEnd(): Promise<void> {
  // Timers of the same length fire in order, so each of these includes a tick.
  for (let tick = 0; tick < 12; tick++) await setTimeout(TICK_MS)
  await new Promise(setImmediate)
}

/** Composes dispatch as the gateway does, with the real client, health and clock. */
export function startDispatching({
  attemptsMax = 3,
  publicLookup,
  tokenClock = systemClock,
  budgetClock = systemClock,
}: {
  attemptsMax?: number
  publicLookup?: LookupFunction
  /** Measures the lifetime of tokens. */
  tokenClock?: Clock
  /** Measures the time of retry budgets. */
  budgetClock?: Clock
} = {}): Dispatching {
  const upstream = new UpstreamClient({
    version: '0.0.0-test',
    tickMs: TICK_MS,
    clock: tokenClock,
    ...(publicLookup && { publicLookup }),
  })
  const newHealth = () => createHealth({ clock: systemClock, random: () => 0.5 })
  const customers = createCustomerBreakers(newHealth(), newHealth())
  const reports: string[] = []
  const worked: { customerId: string; workMs: number }[] = []
  const observed = {
    of(customerId: string): Health {
      const health = customers.of(customerId)
      return healthWith(health, {
        recordSuccess(offerId, sample, sentMs) {
          reports.push(`success ${offerId}`)
          health.recordSuccess(offerId, sample, sentMs)
        },
        recordFailure(offerId, outcome, retryAfterS, sentMs) {
          reports.push(`failure ${offerId} ${outcome}`)
          health.recordFailure(offerId, outcome, retryAfterS, sentMs)
        },
      })
    },
  }
  const deps = {
    upstream,
    health: observed,
    clock: systemClock,
    attemptsMax,
    retryBudget: createRetryBudget({ clock: budgetClock }),
    pseudonymise: (job: ChatJob) => job,
    checkTime: new CheckTime(systemClock),
    noteWork: (customerId: string, workMs: number) => void worked.push({ customerId, workMs }),
  }
  return {
    health: customers.of(ann),
    healthOf: customers.of,
    reports,
    worked,
    send: (offers, body, signal = new AbortController().signal, customerId = ann) =>
      dispatch(deps, planOf([offers].flat(), customerId), jobOf(body), { signal, memory: uncounted }),
    sendJob: (offer, job) =>
      dispatch(deps, planOf([offer]), job, { signal: new AbortController().signal, memory: uncounted }),
    close: async () => upstream.close(),
  }
}

/** A streamed answer as a client sees it. */
export interface StreamSeen {
  readonly chunks: readonly ChatChunk[]
  readonly text: string
  readonly finishReasons: readonly string[]
  /** [prompt, completion], or null. */
  readonly usage: readonly [number, number] | null
  /** The failure after the first content; null if there was none. */
  readonly failure: unknown
}

export async function readStream(answer: Answer): Promise<StreamSeen> {
  if (answer.kind !== 'stream') throw new Error('The answer is not a stream.')
  const chunks: ChatChunk[] = []
  let failure: unknown = null
  try {
    await answer.chunks.read(parts => {
      for (const part of parts)
        chunks.push(
          typeof part === 'string' ? chatStream.encoder(chunks[0]!, { includeUsage: false }).textChunk(part) : part,
        )
    })
  } catch (error) {
    failure = error
  }
  const choices = chunks.flatMap(chunk => chunk.choices)
  const usage = chunks.findLast(chunk => chunk.usage)?.usage
  return {
    chunks,
    text: choices.map(choice => choice.delta.content ?? '').join(''),
    finishReasons: choices.flatMap(choice => choice.finish_reason ?? []),
    usage: usage ? [usage.prompt_tokens, usage.completion_tokens] : null,
    failure,
  }
}
