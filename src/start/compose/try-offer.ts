import { randomUUIDv7 } from 'node:crypto'
import type { Caller } from '../../base/domain/caller.ts'
import type { Plan } from '../../base/domain/handoff.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { Unserved } from '../../base/domain/upstream-failure.ts'
import { CancelSource } from '../../base/runtime/cancel-signal.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import { createCustomerBreakers } from '../../market/supply/breakers/customer-breakers.ts'
import { createHealth } from '../../market/supply/breakers/health.ts'
import type { TryOffer } from '../../operator/providers.ts'
import { createRetryBudget } from '../../request/dispatch/attempt-log.ts'
import { dispatch } from '../../request/dispatch/dispatch.ts'
import { chatDialect } from '../../wire/dialects/chat/chat-dialect.ts'
import { embeddingsDialectWith } from '../../wire/dialects/embeddings/embeddings-dialect.ts'
import { CheckTime } from '../../wire/dialects/fit/check-time.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Supply } from './supply.ts'

const TIMEOUT_MS = 30_000
/** Enough for models that think before they answer. */
const OUTPUT_TOKENS = 64
const TEXT = 'Reply with the word ready.'

/** Creates what sends one small request to an offer as the gateway sends those of customers, in the dialect of its server. */
export function createTryOffer({ clock, random }: ComposeContext, { upstream }: Supply): TryOffer {
  return async offer => {
    const startedMs = clock.monotonicMs()
    const totalMs = () => Math.round(clock.monotonicMs() - startedMs)
    // Its own health: a trial is no evidence about the offers that are sold.
    const health = createHealth({ clock, random })
    const deps = {
      upstream,
      health: createCustomerBreakers(health, health),
      clock,
      attemptsMax: 1,
      retryBudget: createRetryBudget({ clock }),
      pseudonymise: (job: ReturnType<typeof jobFor>) => job,
      noteWork: () => {},
      checkTime: new CheckTime(clock),
    }
    try {
      const answer = await dispatch(deps, planFor(offer, clock.epochMs()), jobFor(offer), {
        signal: new CancelSource(),
        memory: uncounted,
      })
      if (answer.kind === 'stream') throw new TypeError('a trial is not streamed')
      const usage = answer.kind === 'whole' ? answer.completion.usage : answer.usage
      return {
        problem: null,
        text: answer.kind === 'whole' ? textOf(answer.completion.choices[0]?.message.content) : null,
        input_tokens: usage?.prompt_tokens ?? null,
        output_tokens: usage?.completion_tokens ?? null,
        total_ms: totalMs(),
      }
    } catch (error) {
      if (!(error instanceof Unserved)) throw error
      const said = [error.message, ...error.upstreamMessages].join(' ').slice(0, 500)
      return { problem: said, text: null, input_tokens: null, output_tokens: null, total_ms: totalMs() }
    }
  }
}

function textOf(content: unknown): string | null {
  return typeof content === 'string' && content !== '' ? content.slice(0, 500) : null
}

function jobFor({ modelId, features }: Offer) {
  const parse = (body: object, dialect: Pick<typeof chatDialect, 'parseRequest'>) =>
    dialect.parseRequest(Buffer.from(JSON.stringify({ model: modelId, ...body })))
  if (features.has('embeddings')) return parse({ input: TEXT }, embeddingsDialectWith())
  return parse({ messages: [{ role: 'user', content: TEXT }], max_tokens: OUTPUT_TOKENS }, chatDialect)
}

/** No customer sends the request, and no money is held for it. */
function planFor(offer: Offer, startedAtEpochMs: number): Plan {
  const caller = { customerId: 'trial', sharesRequests: false, prices: null } as Caller
  const endpoint = { ...offer.endpoint, timeouts: { ...offer.endpoint.timeouts, totalMs: TIMEOUT_MS } }
  const tried = { ...offer, endpoint }
  const ticket = {
    requestId: randomUUIDv7(),
    hold: { leaseId: '', nanos: 0n, isOpen: false },
    caller,
    label: null,
    startedAtEpochMs,
    startedMonotonicMs: 0,
    models: [offer.modelId],
    eligible: [tried],
    excluded: [],
    maxTokens: OUTPUT_TOKENS,
    clamp: null,
  }
  return { ticket, offers: [tried] }
}
