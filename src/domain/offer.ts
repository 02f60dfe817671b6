import { AUTO_MODEL, type Feature } from './chat-job.ts'
import type { TokenPrice } from './money.ts'

export const providerKinds = ['local', 'hoster', 'cloud'] as const
export type ProviderKind = (typeof providerKinds)[number]

/** Which ids of tool calls an upstream takes: any, 1 to 40 of A-Z a-z 0-9 _ -, or nine of A-Z a-z 0-9. */
export const toolCallIds = ['any', 'short', 'nine'] as const
export type ToolCallIds = (typeof toolCallIds)[number]

/** What an upstream needs to be told differently. A new hoster is a row with other values here, never another client. */
export interface Dialect {
  /** Sends `max_completion_tokens` instead of `max_tokens`. */
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens'
  /** Maps the `developer` role to `system`. */
  readonly developerRole: boolean
  /** Accepts `stream_options`; without it usage is counted here. */
  readonly streamOptions: boolean
  /** Body fields this upstream rejects; removed before sending. `messages[].name` stands for a field of each message. */
  readonly dropFields: readonly string[]
  /** Others become ids that it takes. */
  readonly toolCallIds: ToolCallIds
  /** Header that carries the credential: `authorization` (Bearer) or a plain key header such as `api-key`. */
  readonly keyHeader: 'authorization' | 'api-key' | 'x-api-key'
}

export interface Timeouts {
  readonly connectMs: number
  /** From sending the request to the first content. */
  readonly firstTokenMs: number
  /** Between two pieces of a stream. */
  readonly idleMs: number
  readonly totalMs: number
}

/** A place that answers chat completions. */
export interface Endpoint {
  /** UUID for hosters (the hoster's endpoint), a configured name such as `ollama` for local and cloud. */
  readonly endpointId: string
  readonly kind: ProviderKind
  /** UUID; null unless kind is `hoster`. */
  readonly hosterId: string | null
  readonly name: string
  /** Ends without a slash; `/chat/completions` is appended. */
  readonly baseUrl: string
  readonly apiKey: string | null
  readonly dialect: Dialect
  readonly timeouts: Timeouts
  /** 0..1; set for hosters only. */
  readonly trustScore: number | null
  /** The hoster's part of each charge in basis points; 0 unless kind is `hoster`. */
  readonly hosterShareBps: number
  /** True for the built-in demo model: labelled everywhere, never chosen by `auto` beside a real one. */
  readonly demo: boolean
  /** `public_only`: connect through the checked, pinned lookup of egress/pinned-lookup.ts, since the address comes from a third party. */
  readonly egress: 'any' | 'public_only'
}

/** The id of the built-in demo model, which says of itself what it is. */
export const DEMO_MODEL = 'demo'

/** Ids that nobody can sell: `auto` is a wish and no model, and `demo` is always the labelled demo. */
export function isReservedModel(modelId: string): boolean {
  return modelId === AUTO_MODEL || modelId === DEMO_MODEL
}

/** One model at one endpoint at one price: the unit that is ranked, tried and billed. Immutable; a price change makes a new offer. */
export interface Offer {
  /** `endpointId/modelId`, unique in a catalog. */
  readonly offerId: string
  readonly endpoint: Endpoint
  /** The id customers ask for. */
  readonly modelId: string
  /** The id the upstream knows it by. */
  readonly upstreamModel: string
  readonly price: TokenPrice
  /** Of the hoster's price list. The operator's own prices stand in the configuration and have none. */
  readonly priceVersion?: number
  readonly contextTokens: number
  readonly maxOutputTokens: number
  readonly features: ReadonlySet<Feature>
}

/** The two halves of an offer's id. Ids of endpoints have no slash, those of models may. */
export function splitOfferId(offerId: string): { endpointId: string; modelId: string } {
  const slash = offerId.indexOf('/')
  return { endpointId: offerId.slice(0, slash), modelId: offerId.slice(slash + 1) }
}
