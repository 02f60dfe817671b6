import type { Caller } from './caller.ts'
import type { ChatChunk, ChatCompletion, Envelope, TokenUsage } from './completion.ts'
import type { Nanos } from './money.ts'
import type { Offer, ProviderKind } from './offer.ts'

/** Why an offer may not serve a job. Recorded for each, since the refusal says which wish excluded how many. */
export interface Exclusion {
  readonly offerId: string
  readonly provider: ProviderKind
  readonly reason: ExclusionReason
}

export type ExclusionReason =
  | 'context_too_small'
  | 'output_too_small'
  | 'feature_missing'
  | 'privacy_mode'
  | 'trusted_only'
  | 'max_latency_ms'
  | 'deny_hosters'
  | 'allow_hosters'
  | 'max_cost_usd'
  | 'endpoint_ejected'

/**
 * The money that one request may spend. It is passed on as it is and never copied: the first settlement closes this very object, and later ones
 * count for nothing.
 */
export interface Hold {
  /** A strict lease has the id of its request; a bulk lease is shared by many. */
  readonly leaseId: string
  readonly nanos: Nanos
  /** True until a settlement is taken. Only the ledger writes it. */
  readonly isOpen: boolean
}

/** admit -> route: the request may run, with this money held for it. Ends in exactly one settlement. */
export interface Ticket {
  /** UUIDv7; also the usage row's id. */
  readonly requestId: string
  readonly hold: Hold
  readonly caller: Caller
  readonly startedAtEpochMs: number
  readonly startedMonotonicMs: number
  /** Models in the order they are tried: the one asked for, then the fallbacks. */
  readonly models: readonly string[]
  readonly eligible: readonly Offer[]
  readonly excluded: readonly Exclusion[]
  /** Sent upstream and enforced here; per choice. */
  readonly maxTokens: number
  /** What made `maxTokens` lower than the caller asked for (null: than the default); null when nothing did. */
  readonly clamp: { readonly asked: number | null; readonly by: ClampReason } | null
}

export const clampReasons = ['max_cost_usd', 'on_insufficient'] as const
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
}

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
  /** Cut off on our side before the server had a byte of it: nobody was working on it. */
  | 'not_sent'
  /** Cut off on our side while the server had it. */
  | 'cancelled'

/** dispatch -> relay: somebody answered. A stream has already given its first content, so failing over is no longer possible. */
export type Answer = WholeAnswer | StreamAnswer

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

export interface StreamAnswer extends Answered {
  readonly kind: 'stream'
  readonly chunks: ChunkSource
}

/** A chunk; or, since that is what most chunks are, the next content of the first choice. */
export type StreamPart = ChatChunk | string

export type TakeParts = (parts: readonly StreamPart[]) => void | Promise<void>

/** The normalised chunks of a stream, the peeked ones included. */
export interface ChunkSource {
  /**
   * Hands each group of chunks over in the very call in which its bytes arrive; async iterators, one inside the other, cost
   * 10 us a chunk. While a promise that `take` returned is pending, the upstream has to wait. Resolves after the last chunk or
   * when left; rejects with UpstreamFailure, or with what `take` threw, and the upstream is then cut off. Call it once.
   */
  read(take: TakeParts): Promise<void>
  /** Nothing more is wanted: aborts the upstream. */
  leave(): void
  /** What the upstream has reported so far. Among the chunks it comes at the end, which who leaves does not see. */
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
  /** Its node died before it was settled; written by the reaper. */
  | 'node_died'
  /** Its node was given up, and the same request was sent again with the same Idempotency-Key: this one stays free, whatever comes of it. */
  | 'superseded'

/** relay -> settle: how the request ended and what is billed for it. */
export interface Receipt {
  readonly outcome: Outcome
  /** Null when nobody served it. */
  readonly offer: Offer | null
  readonly attempts: readonly Attempt[]
  readonly billedInputTokens: number
  readonly billedOutputTokens: number
  readonly reportedInputTokens: number | null
  readonly reportedOutputTokens: number | null
  /** Ours; null where a report made counting needless. */
  readonly countedInputTokens: number | null
  readonly countedOutputTokens: number | null
  readonly usageSource: 'upstream' | 'gateway' | 'none'
  readonly finishReason: string | null
  readonly firstTokenMs: number | null
}
