import { AUTO_MODEL, type Feature, type Task } from './chat-job.ts'
import type { CloudCredential } from './cloud-credential.ts'
import type { Dialect } from './conversation.ts'
import type { MeterRatio } from './meter-ratio.ts'
import type { Nanos, OfferPrice } from './money.ts'
import type { PriceGroupName } from './price-group.ts'
import type { PriceList } from './price-list.ts'

/** `trusted_only` admits hosters with a trust score above this, strictly, as docs/routing.md promises. */
export const TRUSTED_ABOVE = 0.8

export const providerKinds = ['local', 'hoster', 'cloud'] as const
export type ProviderKind = (typeof providerKinds)[number]

/**
 * The ids of tool calls that an upstream accepts: any, 1 to 40 of A-Z a-z 0-9 _ -, or exactly nine of A-Z a-z
 * 0-9.
 */
export const toolCallIds = ['any', 'short', 'nine'] as const
export type ToolCallIds = (typeof toolCallIds)[number]

export const keyHeaders = ['authorization', 'api-key', 'x-api-key', 'x-goog-api-key'] as const
export type KeyHeader = (typeof keyHeaders)[number]

/**
 * How a model of Anthropic is asked to think: by effort, by a budget of tokens (models before 4.6), or not at all.
 */
export const thinkingModes = ['adaptive', 'budget', 'none'] as const
export type ThinkingMode = (typeof thinkingModes)[number]

/**
 * How the API of an upstream differs from OpenAI's; set by the configuration key `dialect`. A new kind of upstream
 * is another set of values, never another client.
 */
export interface UpstreamQuirks {
  /** The body field that limits the output tokens. */
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens'
  /** Sends messages of the role `developer` as `system`. */
  readonly developerToSystem: boolean
  /** Whether the upstream accepts `stream_options`. If not, the gateway counts the tokens of streams. */
  readonly streamOptions: boolean
  /** Body fields that this upstream gets besides those of its kind: dialects/chat/upstream-request.ts. */
  readonly forwardFields: readonly string[]
  /**
   * Body fields that this upstream rejects; removed before sending. `messages[].name` means a field of each
   * message.
   */
  readonly dropFields: readonly string[]
  /** The tool call ids that the upstream accepts. Other ids are replaced. */
  readonly toolCallIds: ToolCallIds
  /**
   * The server charges for reasoning that `completion_tokens` of its reports leaves out and only the total has. Without
   * it, a total above the parts is not billed.
   */
  readonly hidesReasoning: boolean
  /** Whether the upstream may be asked for vectors in base64, which is a quarter of the size. */
  readonly base64Embeddings: boolean
  /** Header that carries the credential: `authorization` (Bearer) or a plain key header such as `api-key`. */
  readonly keyHeader: KeyHeader
}

export interface Timeouts {
  readonly connectMs: number
  /** From sending the request to the first content. */
  readonly firstTokenMs: number
  /** For an answer that is not streamed: added to `firstTokenMs` for each token of max_tokens. */
  readonly tokenMs: number
  /**
   * The longest pause between two signs of life of a server that thinks: from its first event to its first text. Absent:
   * `firstTokenMs` holds until the first content, whatever the server sends before it, and `idleMs` from then on.
   */
  readonly thinkingMs?: number
  /** The longest pause between two pieces of an answer. */
  readonly idleMs: number
  readonly totalMs: number
}

/** A model server with OpenAI's API, or with that of another vendor: see Offer.speaks. */
export interface Endpoint {
  /** UUID for hosters (the hoster's endpoint), a configured name such as `ollama` for local and cloud. */
  readonly endpointId: string
  readonly kind: ProviderKind
  /** UUID; null unless kind is `hoster`. */
  readonly hosterId: string | null
  readonly name: string
  /** Ends without a slash; `/chat/completions` or the path of another task is appended. */
  readonly baseUrl: string
  readonly apiKey: string | null
  /** Authorises each request, where `apiKey` does not. */
  readonly credential?: CloudCredential
  readonly dialect: UpstreamQuirks
  readonly timeouts: Timeouts
  /** 0..1; set for hosters only. Changes with each audit, so only routing and the operator see it. */
  readonly trustScore: number | null
  /** The trust score that hosters and customers see: that of an earlier day, rounded. Absent: 0. */
  readonly shownTrust?: number
  /** The hoster's share of each charge in basis points; 0 unless kind is `hoster`. */
  readonly hosterShareBps: number
  /** True for the built-in demo model, which is labelled a demo and chosen by `auto` only as the last model. */
  readonly demo: boolean
  /**
   * `public_only`: connect through the pinned lookup of egress/pinned-lookup.ts, because the URL comes from a
   * third party.
   */
  readonly egress: 'any' | 'public_only'
  /**
   * Set when requests travel over connections that the hoster's agent opened to the gateway. `baseUrl` is then only a
   * name, and no connection to it is ever opened.
   */
  readonly transport?: 'agent'
  /** At most this much is spent at it in a month (UTC). Absent: no limit. */
  readonly monthlyBudgetNanos?: Nanos
  /** Whether the server gets the trace of each request. Absent: only a local one. See `passesTraces`. */
  readonly getsTraces?: boolean
  /** Where the operator changes it. Absent: hosters, the demo, and what detection found. */
  readonly origin?: 'file' | 'managed'
}

/** Whether a server gets the header `traceparent`: those of others must not learn what belongs together. */
export function passesTraces({ getsTraces, kind }: Pick<Endpoint, 'getsTraces' | 'kind'>): boolean {
  return getsTraces ?? kind === 'local'
}

/** The id of the built-in demo model. */
export const DEMO_MODEL = 'demo'

/** Whether a model id is reserved: `auto` lets routing choose, and `demo` is the built-in demo model. */
export function isReservedModel(modelId: string): boolean {
  return modelId === AUTO_MODEL || modelId === DEMO_MODEL
}

/**
 * One model at one endpoint at one price: the unit that is ranked, tried and billed. Immutable; a price
 * change makes a new offer.
 */
export interface Offer {
  /** `endpointId/modelId`, unique in a catalog. */
  readonly offerId: string
  readonly endpoint: Endpoint
  /** The id that customers request. */
  readonly modelId: string
  /** The id of the model at the upstream. */
  readonly upstreamModel: string
  readonly price: OfferPrice
  /** Only where the time of the day changes `price`: the list that it comes from. */
  readonly timedPrices?: PriceList
  /** Version in the hoster's price list, or of the managed provider. Prices from the configuration have none. */
  readonly priceVersion?: number
  /** The version of the customer's prices that `price` comes from. Absent: `price` is the same for all customers. */
  readonly priceGroup?: PriceGroupName
  /** The price of other customers. Set with `priceGroup`. */
  readonly listPrice?: OfferPrice
  /** What the operator pays for it, if that is known. Reports and budgets read it. */
  readonly cost?: OfferPrice
  /** A factor of its chance among offers that are otherwise as good. Absent: 1. */
  readonly weight?: number
  /** The server has spent its budget of this month, so it gets no requests. */
  readonly isBudgetSpent?: true
  readonly contextTokens: number
  readonly maxOutputTokens: number
  /** How many requests at once the server takes for this model. Absent: not declared. */
  readonly capacity?: number
  readonly features: ReadonlySet<Feature>
  /** How this model differs from others at its endpoint. */
  readonly quirks?: ModelQuirks
  /** Set for offers of models that hosters offer. */
  readonly meterRatio?: MeterRatio
  /** The dialects that the server speaks for this model, the preferred one first. Absent: chat. */
  readonly speaks?: readonly Dialect[]
}

/** An offer of a hoster's endpoint. */
export type HosterOffer = Offer & { readonly endpoint: { readonly hosterId: string } }

export function isOfHoster(offer: Offer): offer is HosterOffer {
  return offer.endpoint.hosterId !== null
}

/**
 * Whether an offer serves a task: the tasks that it declares; chat also if it declares a feature of chat, or nothing.
 */
export function serves({ features }: Pick<Offer, 'features'>, task: Task): boolean {
  if (task !== 'chat') return features.has(task)
  if (features.size === 0 || features.has('tools') || features.has('chat')) return true
  return features.has('json_schema') || features.has('images') || features.has('audio')
}

/** How a model differs from others at the same endpoint; set by configuration keys of the model. */
export interface ModelQuirks {
  /** Body fields that this model rejects; removed before sending. */
  readonly dropFields: readonly string[]
  /**
   * The model accepts tools and sampling settings only with `reasoning_effort: "none"`, as OpenAI's models since
   * GPT-5.4 do on chat completions. With tools it gets that effort; with any other effort it gets no sampling settings.
   */
  readonly exclusiveReasoning: boolean
  /** For the dialect `messages`. Absent: by effort. */
  readonly thinking?: ThinkingMode
}

/** Splits an offer's id into its two parts. The id of an endpoint has no slash, that of a model may have one. */
export function splitOfferId(offerId: string): { endpointId: string; modelId: string } {
  const slash = offerId.indexOf('/')
  return { endpointId: offerId.slice(0, slash), modelId: offerId.slice(slash + 1) }
}

/** Returns the header that carries our credential to an upstream; null for an endpoint without a key. */
export function credentialHeader({ apiKey, dialect: { keyHeader } }: Endpoint): [name: string, value: string] | null {
  if (apiKey === null) return null
  return [keyHeader, keyHeader === 'authorization' ? `Bearer ${apiKey}` : apiKey]
}
