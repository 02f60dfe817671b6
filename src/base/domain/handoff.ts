import type { UsageParts } from './answer-event.ts'
import type { Caller } from './caller.ts'
import type { ChatChunk, ChatCompletion, Envelope, TokenUsage } from './completion.ts'
import type { Nanos } from './money.ts'
import type { Offer, ProviderKind } from './offer.ts'
import type { TextLength } from './text-length.ts'

/** An offer that may not serve a job, with the reason. Refusals list how many offers each constraint excluded. */
export interface Exclusion {
  readonly offerId: string
  readonly provider: ProviderKind
  readonly reason: ExclusionReason
}

export type ExclusionReason =
  | 'context_too_small'
  | 'feature_missing'
  | 'max_input_usd_per_million'
  | 'max_output_usd_per_million'
  | 'privacy_mode'
  | 'trusted_only'
  | 'max_latency_ms'
  | 'deny_hosters'
  | 'allow_hosters'
  | 'max_cost_usd'
  | 'budget_spent'
  | 'endpoint_ejected'

/**
 * The money that one request may spend. Pass this object on and never copy it: the first settlement closes it, and
 * further settlements have no effect.
 */
export interface Hold {
  /** A strict lease has the id of its request; a bulk lease is shared by many. */
  readonly leaseId: string
  readonly nanos: Nanos
  /** True until a settlement is taken. Only the ledger writes it. */
  readonly isOpen: boolean
}

/** admit -> route: permission to run, with money held for the request. Ends in exactly one settlement. */
export interface Ticket {
  /** UUIDv7; also the id of the usage row. */
  readonly requestId: string
  readonly hold: Hold
  readonly caller: Caller
  /** The label of the request, else that of its key; null for none. */
  readonly label: string | null
  readonly startedAtEpochMs: number
  readonly startedMonotonicMs: number
  /** Models in the order they are tried: the requested one, then the fallbacks. */
  readonly models: readonly string[]
  readonly eligible: readonly Offer[]
  readonly excluded: readonly Exclusion[]
  /** Limit per choice at every offer. An offer that generates fewer tokens is asked for fewer: `outputCap`. */
  readonly maxTokens: number
  /** Why `maxTokens` is lower than requested (`asked` null: lower than the default); null when it is not. */
  readonly clamp: { readonly asked: number | null; readonly by: ClampReason } | null
  /** The length of the prompt, if the admission measured it. */
  readonly promptLength?: TextLength | undefined
  /**
   * How long the admission waited for credit that other requests of the customer held, whole ms. Absent: not at all.
   */
  readonly creditWaitedMs?: number
}

/** `model`: no offer generates as many tokens, or the answering one does not. */
export const clampReasons = ['max_cost_usd', 'on_insufficient', 'model'] as const
export type ClampReason = (typeof clampReasons)[number]

/** route -> dispatch: offers in the order they are tried. */
export interface Plan {
  readonly ticket: Ticket
  readonly offers: readonly Offer[]
}

/** One try at one offer. */
export interface Attempt {
  readonly offerId: string
  readonly endpointId: string
  readonly provider: ProviderKind
  readonly outcome: AttemptOutcome
  /** Whole milliseconds. */
  readonly elapsedMs: number
  /** The rules that the answer of a hoster broke; absent: none. */
  readonly breaches?: readonly Breach[]
}

/** `max_tokens`: longer than the limit that it got. `model_id`: it names another model. */
export const breaches = ['max_tokens', 'model_id'] as const
export type Breach = (typeof breaches)[number]

export type AttemptOutcome =
  | 'answered'
  | 'connect_failed'
  | 'server_error'
  | 'first_token_timeout'
  | 'malformed'
  | 'empty'
  | 'busy'
  | 'credential_rejected'
  | 'request_rejected'
  /** The gateway ended the attempt before the server received a byte. */
  | 'not_sent'
  /** The gateway ended the attempt after the server may have received a part of the request. */
  | 'cancelled'

/**
 * dispatch -> relay: the answer of an upstream. A stream has already delivered its first content, so failover
 * is no longer possible.
 */
export type Answer = WholeAnswer | StreamAnswer | DataAnswer

interface Answered {
  readonly offer: Offer
  readonly envelope: Envelope
  readonly attempts: readonly Attempt[]
  /** From the start of the winning attempt to its first content, ms. */
  readonly firstTokenMs: number
}

export interface WholeAnswer extends Answered {
  readonly kind: 'whole'
  readonly completion: ChatCompletion
}

/** An answer that was computed from the input instead of generated: vectors, scores. It has no output tokens. */
export interface DataAnswer extends Answered {
  readonly kind: 'data'
  /** The JSON object for the client, without its usage. */
  readonly body: string
  /** What the upstream reported. */
  readonly usage: TokenUsage | null
}

export interface StreamAnswer extends Answered {
  readonly kind: 'stream'
  readonly chunks: ChunkSource
}

/** A chunk. Text stands for the most common chunk: the next content of the first choice. */
export type StreamPart = ChatChunk | string

export type TakeParts = (parts: readonly StreamPart[]) => void | Promise<void>

/** The normalised chunks of a stream, including those that dispatch has already read. */
export interface ChunkSource {
  /**
   * Calls `take` with each group of chunks synchronously when its bytes arrive; nested async iterators would
   * cost 10 us a chunk. While a promise returned by `take` is pending, the upstream waits. Resolves after the
   * last chunk or after `leave`; rejects with UpstreamFailure, or with the error of `take`, and then aborts
   * the upstream. Call it once.
   */
  read(take: TakeParts): Promise<void>
  /** Aborts the upstream because no more chunks are wanted. */
  leave(): void
  /**
   * The usage that the upstream has reported so far. It usually arrives in the last chunk, which is not seen
   * after `leave`.
   */
  readonly usage: TokenUsage | null
}

export type Outcome =
  | 'served'
  | 'client_gone'
  | 'refused_upstream'
  | 'unserved'
  | 'interrupted'
  | 'shutdown'
  | 'internal_error'
  /** The node died before settling the request; written by the reaper. */
  | 'node_died'
  /**
   * The node was declared dead and the client repeated the request with its Idempotency-Key. This attempt
   * stays free in any case.
   */
  | 'superseded'

/** relay -> settle: how the request ended and which tokens are billed. */
export interface Receipt {
  readonly outcome: Outcome
  /** Null when no offer served the request. */
  readonly offer: Offer | null
  readonly attempts: readonly Attempt[]
  readonly billedInputTokens: number
  readonly billedOutputTokens: number
  /** The billed tokens in parts. Null when all are fresh text, as far as the upstream reports. */
  readonly billedParts: UsageParts | null
  readonly reportedInputTokens: number | null
  readonly reportedOutputTokens: number | null
  /** Counted by the gateway; null when the upstream's report made counting unnecessary. */
  readonly countedInputTokens: number | null
  readonly countedOutputTokens: number | null
  readonly usageSource: 'upstream' | 'gateway' | 'none'
  readonly finishReason: string | null
  readonly firstTokenMs: number | null
  /** See `UsageParts`. */
  readonly upstreamTier?: string | undefined
}
