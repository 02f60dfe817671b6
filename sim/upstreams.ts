import { Cancelled, UpstreamFailure } from '../src/base/domain/upstream-failure.ts'
import { RatePool } from '../src/base/runtime/rate-pool.ts'
import type { ResponseHead } from '../src/wire/upstreams/response-parser.ts'
import type { UpstreamClient, UpstreamRequest } from '../src/wire/upstreams/upstream-client.ts'
import type { UpstreamExchange } from '../src/wire/upstreams/upstream-exchange.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

/** The failures of a model server. */
export const troubleKinds = [
  'refuses',
  'fails',
  'hangs',
  'garbles',
  'says_nothing',
  'is_busy',
  'asks_to_wait',
  'locks_out',
  'breaks_off',
  'is_slow',
] as const

export interface TroublePlan {
  /** Null for all servers at once. */
  readonly endpointId: string | null
  /** The only customer whose requests meet the trouble; null for all customers. */
  readonly customerId: string | null
  readonly fromMs: number
  readonly untilMs: number
  readonly kind: (typeof troubleKinds)[number]
  /** Share of the requests that meet the trouble, 0 to 1. */
  readonly rate: number
}

/** The model servers of the world. */
export interface Upstreams {
  /** A client for one request. The answer takes `runsMs`; `isRejected` means that every server rejects the request as invalid. */
  clientFor(
    process: Process,
    request: { readonly customerId: string; readonly runsMs: number; readonly isRejected: boolean },
  ): UpstreamClient
  /** Ends all troubles. */
  heal(): void
}

/** The `firstTokenMs` of the simulated endpoints: no content within this time is a fault. */
export const FIRST_TOKEN_MS = 8_000

export function createUpstreams(world: World, troubles: readonly TroublePlan[]): Upstreams {
  const { random } = world
  let isHealed = false

  return {
    clientFor(process, request) {
      const send = ({ endpoint, stream, signal }: UpstreamRequest) =>
        new Promise<Exchange>((resolve, reject) => {
          const trouble = troubleOf(endpoint.endpointId, request.customerId)
          const end = (afterMs: number, finish: () => void) => {
            process.scheduler.after(afterMs, () =>
              signal.aborted ? reject(new Cancelled('client_left', true)) : finish(),
            )
          }
          const give = (afterMs: number, exchange: Exchange) => end(afterMs, () => resolve(exchange))
          const fail = (afterMs: number, outcome: 'connect_failed' | 'first_token_timeout' | 'server_error') =>
            end(afterMs, () => reject(new UpstreamFailure(outcome, `simulated: ${trouble}`)))
          const soonMs = random.skewed(0.5, 50)
          const { runsMs } = request
          switch (trouble) {
            case 'refuses':
              return fail(random.chance(0.8) ? soonMs : 3_000, 'connect_failed')
            case 'fails':
              return give(soonMs, whole(500, '{"error":{"message":"simulated"}}'))
            case 'hangs':
              return fail(FIRST_TOKEN_MS, 'first_token_timeout')
            case 'garbles':
              return give(soonMs, whole(200, '<html>'))
            case 'says_nothing':
              return give(runsMs, whole(200, '{"choices":[]}'))
            case 'is_busy':
              return give(soonMs, whole(429, ''))
            case 'asks_to_wait':
              return give(soonMs, whole(429, '', String(random.pick([0, 1, 5, 30, 900]))))
            case 'locks_out':
              return give(soonMs, whole(401, '{"error":{"message":"simulated"}}'))
          }
          if (request.isRejected) return give(soonMs, whole(400, '{"error":{"message":"simulated"}}'))
          const takesMs = trouble === 'is_slow' ? Math.min(runsMs * 20 + 500, FIRST_TOKEN_MS) : runsMs
          if (stream) give(takesMs / 2, streamed(process, takesMs / 2, trouble === 'breaks_off'))
          else if (trouble === 'breaks_off') fail(takesMs / 2, 'server_error')
          else give(takesMs, whole(200, ANSWER))
        })
      // Dispatch uses only these members; the others belong to sockets.
      return { send, parsingPool: () => unlimited } as unknown as UpstreamClient
    },
    heal() {
      isHealed = true
    },
  }

  function troubleOf(endpointId: string, customerId: string): TroublePlan['kind'] | undefined {
    if (isHealed) return undefined
    for (const trouble of troubles) {
      if (trouble.endpointId !== null && trouble.endpointId !== endpointId) continue
      if (trouble.customerId !== null && trouble.customerId !== customerId) continue
      if (world.nowMs < trouble.fromMs || world.nowMs >= trouble.untilMs) continue
      if (random.chance(trouble.rate)) return trouble.kind
    }
    return undefined
  }
}

/** The members of an UpstreamExchange that dispatch uses. */
type Exchange = Pick<
  UpstreamExchange,
  'head' | 'text' | 'read' | 'readText' | 'release' | 'abort' | 'lifeSeen' | 'contentStarted' | 'answerComplete'
>

const noop = () => {}
/** Streams are not slowed down. */
const unlimited = new RatePool(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)

function whole(status: number, text: string, retryAfter = ''): Exchange {
  return {
    head: headOf(status, 'application/json', retryAfter),
    text,
    read: async take => take(Buffer.from(text)),
    readText: async () => text,
    release: noop,
    abort: noop,
    lifeSeen: noop,
    contentStarted: noop,
    answerComplete: noop,
  }
}

function headOf(status: number, contentType: string, retryAfter = ''): ResponseHead {
  return { status, contentType, contentEncoding: '', retryAfter, retryAfterMs: '' }
}

/** A stream with its first content at once and the rest after `restMs`. */
function streamed(process: Process, restMs: number, isBreakingOff: boolean): Exchange {
  let abort = noop
  return {
    ...whole(200, ''),
    head: headOf(200, 'text/event-stream'),
    async read(take) {
      await take(FIRST_EVENT)
      await new Promise<void>((resolve, reject) => {
        abort = () => reject(new Cancelled('not_wanted', true))
        process.scheduler.after(restMs, () =>
          isBreakingOff ? reject(new UpstreamFailure('server_error', 'simulated: breaks_off')) : resolve(),
        )
      })
      await take(LAST_EVENTS)
    },
    abort: () => abort(),
  }
}

const ANSWER = '{"choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}'
const FIRST_EVENT = Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n')
const LAST_EVENTS = Buffer.from('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
