import type { Conversation, Dialect } from './conversation.ts'
import type { Nanos } from './money.ts'
import type { TextLength } from './text-length.ts'

export const serviceTiers = ['cheapest', 'balanced', 'fastest'] as const
/** How offers are ranked. Not related to the account tier, which sets limits. */
export type ServiceTier = (typeof serviceTiers)[number]

export const insufficientChoices = ['refuse', 'clamp'] as const
/**
 * What to do when the balance does not cover `max_tokens`: refuse with 402, or lower it to what the balance
 * covers.
 */
export type OnInsufficient = (typeof insufficientChoices)[number]

export const tasks = ['chat', 'completions', 'embeddings', 'rerank'] as const
/** What a request asks a model to do. Each task has an endpoint. */
export type Task = (typeof tasks)[number]

/**
 * What an offer can declare: the tasks that it serves, features of chat, and for embeddings, whether the client may
 * choose the length of the vectors (`dimensions`).
 */
export const features = ['tools', 'images', 'audio', 'json_schema', ...tasks, 'dimensions'] as const
export type Feature = (typeof features)[number]

/** The model id that lets routing choose among all models that the request does not name. */
export const AUTO_MODEL = 'auto'

/**
 * The routing constraints of a request. Each is binding except `serviceTier`, which only ranks the remaining offers.
 */
export interface RoutingConstraints {
  readonly serviceTier: ServiceTier
  readonly privacyMode: boolean
  readonly trustedOnly: boolean
  readonly maxLatencyMs: number | null
  readonly fallbackModels: readonly string[]
  /** Lower-case UUIDs; null when the list was not sent. An empty list allows no hoster. */
  readonly allowHosters: ReadonlySet<string> | null
  readonly denyHosters: ReadonlySet<string>
  /** The highest prices of an offer. Absent: any. */
  readonly maxInputPicoPerToken?: bigint
  readonly maxOutputPicoPerToken?: bigint
}

/** The longest wait for credit that may be configured or asked for. */
export const CREDIT_WAIT_MS_MAX = 60_000

export const preferences = ['tier', 'fallback_models', 'on_insufficient'] as const
/**
 * A routing field of which one value applies: that of the body, else of a header, else of the key. Of every other
 * routing field, the strictest value applies.
 */
export type Preference = (typeof preferences)[number]

export const constraintNames = [
  ...(['tier', 'privacy_mode', 'trusted_only', 'max_latency_ms'] as const),
  ...(['fallback_models', 'allow_hosters', 'deny_hosters', 'max_cost_usd'] as const),
  ...(['max_input_usd_per_million', 'max_output_usd_per_million'] as const),
] as const
/** A routing field that a receipt shows. */
export type ConstraintName = (typeof constraintNames)[number]

export const constraintSources = ['header', 'key'] as const
/** Where a constraint came from that the body alone did not set. */
export type ConstraintSource = (typeof constraintSources)[number]

/**
 * A parsed request of any task: the gateway's own fields are separate, and `forward` holds the rest, ready to be
 * sent upstream.
 */
export interface ChatJob {
  readonly task: Task
  /** What the answer must be like when it is computed from the input instead of generated. */
  readonly data?: DataRequest
  /** The requested model id, or AUTO_MODEL. */
  readonly model: string
  readonly constraints: RoutingConstraints
  readonly stream: boolean
  /** Whether the client wants a usage chunk. What the upstream is asked for does not depend on this. */
  readonly includeUsage: boolean
  /** Explicit max_tokens or max_completion_tokens; null when neither was sent. */
  readonly maxTokens: number | null
  readonly onInsufficient: OnInsufficient
  /** `max_cost_usd`: the most that may be held for this request, and so the most it may be charged. */
  readonly maxCostNanos: Nanos | null
  /** Only return what would happen and what it would cost. */
  readonly dryRun: boolean
  /** The preferences that the body leaves open. A header or the key may set them. */
  readonly openPreferences: ReadonlySet<Preference>
  /** The constraints that a header or the key set or made stricter. Undefined if there are neither. */
  readonly constraintSources?: Readonly<Partial<Record<ConstraintName, ConstraintSource>>>
  /** The number of choices: `n` for each prompt. Each may use `maxTokens`. 0 if no text is generated. */
  readonly choices: number
  /** The request names a stop sequence, so a valid answer may be empty. */
  readonly hasStop: boolean
  /** The features besides the task that the request uses, so its offer must support them. */
  readonly features: ReadonlySet<Feature>
  /**
   * Upper bound on the tokens of the prompt for every tokenizer: bytes plus overhead, images and audio at a
   * flat bound.
   */
  readonly inputTokensBound: number
  /** The tokens that the longest input has at least, if the inputs are independent of each other. */
  readonly longestInputTokensMin?: number
  /** Joins the text of the prompt: messages and tools. */
  readonly promptText: () => string
  /** The UTF-8 bytes of this text; part of `inputTokensBound`. */
  readonly promptTextBytes: number
  /** The length of this text; undefined until it has been measured, which only long prompts are. */
  readonly promptLength?: TextLength | undefined
  /** Flat token bound of images, audio and files; part of `inputTokensBound`. */
  readonly mediaTokensBound: number
  /** Messages; for other tasks, the inputs that a server reads separately. */
  readonly messageCount: number
  /**
   * The client's name of the conversation: `prompt_cache_key` of the body, else a session header. Null: its first
   * messages identify it. Any length.
   */
  readonly sessionKey: string | null
  /** What the request is for, by the header x-switchyard-label. Undefined: the label of the key applies. */
  readonly label?: string
  /** The longest wait for credit that running requests hold, by the header x-switchyard-wait-for-credit-ms. */
  readonly creditWaitMsMax?: number
  /**
   * The OpenAI fields to forward, without model, max_tokens, max_completion_tokens, stream, stream_options
   * and the gateway's own.
   */
  readonly forward: Readonly<Record<string, unknown>>
  /**
   * The output tokens per choice that a hold must pay for at least, where more than the usual few are needed. Agents
   * fail at an answer that was cut off.
   */
  readonly outputFloorTokens?: number
  /** Without `maxTokens` the limit is the largest output of the model, not the gateway's default. */
  readonly isLimitOpen?: true
  /** The request in its own dialect; undefined for chat: its body is `forward`. */
  readonly source?: SourceRequest
  /** The fields of `forward` that only some servers get. */
  readonly extraFields: readonly ExtraField[]
  /** The fields of the body that no server gets, except the gateway's own. */
  readonly droppedFields: readonly string[]
}

/** A request of another dialect than chat. */
export interface SourceRequest {
  readonly dialect: Dialect
  /**
   * The body for a server of the same dialect, without the fields that the gateway sets, its own fields, and what has
   * no price.
   */
  readonly body: Readonly<Record<string, unknown>>
  /** The request uses what no other dialect can express, so only servers of the same dialect may serve it. */
  readonly isNativeOnly?: true
  /** The type of the first tool, item or block that makes it so, for the refusal. */
  readonly nativePart?: string
  /** The type of a tool that returns pictures, for the refusal: the model must read images. */
  readonly pictureTool?: string
  /** The request has tools that models of its dialect know without a definition. Others get functions. */
  readonly hasKnownTools?: true
  /** What only servers of the same dialect can get, as receipts name it. Absent: nothing. */
  readonly ownFields?: readonly string[]
  /** Translates the request for servers of other dialects, at the first call. */
  conversation(): Conversation
}

/** What the answer to a request for vectors must be like. */
export interface EmbeddingsRequest {
  readonly task: 'embeddings'
  /** One vector is returned for each. */
  readonly inputs: number
  /** The requested length of each vector; null when none was requested. */
  readonly dimensions: number | null
  readonly encoding: 'float' | 'base64'
  /** How the answer lists the vectors: as OpenAI, or as Google for one content or for several. */
  readonly form: 'openai' | 'google' | 'google_batch'
}

/** What the answer to a request for an order of documents must be like. */
export interface RerankRequest {
  readonly task: 'rerank'
  readonly documents: readonly string[]
  /** How many of them to return. */
  readonly topN: number
  readonly returnDocuments: boolean
}

export type DataRequest = EmbeddingsRequest | RerankRequest

export interface ExtraField {
  readonly name: string
  /** ProviderKinds. An endpoint of another kind gets the field only if its quirks name it. */
  readonly kinds: ReadonlySet<string>
}

/**
 * Returns the likely tokens of a prompt, at 4 bytes a token. For comparing offers: the bound of the prompt counts
 * bytes, so it would let input prices decide alone.
 */
export function expectedInputTokens({ inputTokensBound, mediaTokensBound }: ChatJob): number {
  return Math.ceil((inputTokensBound - mediaTokensBound) / 4) + mediaTokensBound
}

/**
 * What a request uses, so its offer must support it. `citations` and `native_tools` (tools that only Anthropic's models
 * know, such as a computer) exist only in the dialect `messages`, and need a server that speaks it.
 */
export type RequestFeature = Feature | 'documents' | 'citations' | 'native_tools' | 'text_enum'

/** What admission, routing, dispatch and settlement need to know of a request, whatever its dialect. */
export interface RequestFacts extends Omit<ChatJob, 'features' | 'forward' | 'extraFields' | 'source'> {
  readonly features: ReadonlySet<RequestFeature>
}

/** A parsed request of a dialect other than chat. */
export interface ParsedRequest extends SourceRequest {
  readonly facts: RequestFacts
}

/**
 * The routing constraints as clients write them: fields of a body, headers, or the defaults of a key. Null means the
 * same as leaving a field out.
 */
export interface RoutingFields {
  readonly tier?: ServiceTier | null | undefined
  readonly privacy_mode?: boolean | null | undefined
  readonly trusted_only?: boolean | null | undefined
  readonly max_latency_ms?: number | null | undefined
  readonly fallback_models?: readonly string[] | null | undefined
  /** UUIDs in any letter case. */
  readonly allow_hosters?: readonly string[] | null | undefined
  readonly deny_hosters?: readonly string[] | null | undefined
  readonly max_cost_usd?: number | null | undefined
  readonly max_input_usd_per_million?: number | null | undefined
  readonly max_output_usd_per_million?: number | null | undefined
  readonly on_insufficient?: OnInsufficient | null | undefined
  readonly dry_run?: boolean | null | undefined
}

/** The routing fields of a key. Only fields that are set are stored. */
export type KeyDefaults = Omit<RoutingFields, 'dry_run'>

/** The part of a ChatJob that routing fields set. Bodies, headers and keys have one each. */
export type Routing = Pick<ChatJob, 'constraints' | 'onInsufficient' | 'maxCostNanos' | 'dryRun' | 'openPreferences'>

/**
 * Returns the constraints of checked fields, with defaults for the others.
 *
 * @param onInsufficient what applies when the fields do not say
 */
export function routingOf(fields: RoutingFields, onInsufficient: OnInsufficient = 'refuse'): Routing {
  return {
    constraints: constraintsOf(fields),
    onInsufficient: fields.on_insufficient ?? onInsufficient,
    maxCostNanos: fields.max_cost_usd ? floorUsd(fields.max_cost_usd, 9) : null,
    dryRun: fields.dry_run ?? false,
    openPreferences: openPreferencesOf(fields),
  }
}

function constraintsOf(fields: RoutingFields): RoutingConstraints {
  return {
    serviceTier: fields.tier ?? 'balanced',
    privacyMode: fields.privacy_mode ?? false,
    trustedOnly: fields.trusted_only ?? false,
    maxLatencyMs: fields.max_latency_ms ?? null,
    fallbackModels: fields.fallback_models ?? noModels,
    allowHosters: fields.allow_hosters ? lowerCaseSet(fields.allow_hosters) : null,
    denyHosters: fields.deny_hosters ? lowerCaseSet(fields.deny_hosters) : noHosters,
    // A millionth of a USD per million tokens is a picodollar per token.
    ...(fields.max_input_usd_per_million && { maxInputPicoPerToken: floorUsd(fields.max_input_usd_per_million, 6) }),
    ...(fields.max_output_usd_per_million && { maxOutputPicoPerToken: floorUsd(fields.max_output_usd_per_million, 6) }),
  }
}

const noModels: readonly string[] = []
const noHosters: ReadonlySet<string> = new Set()
const allPreferences: ReadonlySet<Preference> = new Set(preferences)

/** Most requests set no preference and share one set. */
function openPreferencesOf(fields: RoutingFields): ReadonlySet<Preference> {
  const { tier, fallback_models, on_insufficient } = fields
  if ((tier ?? fallback_models ?? on_insufficient ?? null) === null) return allPreferences
  return new Set(preferences.filter(name => (fields[name] ?? null) === null))
}

/**
 * Returns an amount in units of its last decimal: nano-USD for 9 decimals, micro-USD for 6. Rounds further decimals
 * down, so that a cap is never raised.
 */
function floorUsd(amountUsd: number, decimals: 6 | 9): bigint {
  const nearest = amountUsd.toFixed(decimals)
  const units = BigInt(nearest.replace('.', ''))
  return Number(nearest) > amountUsd ? units - 1n : units
}

function lowerCaseSet(values: readonly string[]): Set<string> {
  return new Set(values.map(value => value.toLowerCase()))
}

/** What the server of one attempt gets otherwise than the client sent it, because its vendor refuses that. */
export interface FitNotes {
  /** The fields with other values than those of the client. */
  readonly changed: ReadonlySet<string>
  readonly dropped: ReadonlySet<string>
  /** The client's names of tools, by those that the server gets. */
  readonly names: ReadonlyMap<string, string>
  /** The client's names of properties by those that the server got, by the client's name of the tool. */
  readonly properties: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** What the answer is checked against. Undefined: the server got all schemas as they are, or there are none. */
  readonly schemas: AnswerSchemas | undefined
  /** The stop sequences that the server did not get, so the gateway cuts the answer at them. */
  readonly cutStops: readonly string[]
  /** Where the answer breaks one of them, such as `#/tags maxItems`. Set when the answer has been read. */
  schemaViolation: string | undefined
}

/** The schemas of a client, where the server got others, because its vendor does not know all keywords. */
export interface AnswerSchemas {
  /** Undefined: the server got the schema of the answer, if there is one. */
  output: unknown
  /** The parameters of strict tools, by the client's name of the tool. */
  readonly tools: Map<string, unknown>
}

/** The notes of each attempt, by the id of its offer. Most requests fit every server and have no notes. */
const fits = new WeakMap<ChatJob, Map<string, FitNotes>>()

/** Remembers what the attempt at an offer changed; null: nothing. */
export function noteFit(job: ChatJob, offerId: string, notes: FitNotes | null): void {
  const byOffer = fits.get(job) ?? new Map<string, FitNotes>()
  if (notes === null) byOffer.delete(offerId)
  else fits.set(job, byOffer.set(offerId, notes))
}

/** Returns what the attempt at an offer changed; undefined if nothing. */
export function fitOf(job: ChatJob, { offerId }: { readonly offerId: string }): FitNotes | undefined {
  return fits.get(job)?.get(offerId)
}

/** Remembers for a request what was noted for the copy that was sent. */
export function shareFits(copy: ChatJob, job: ChatJob): void {
  const byOffer = fits.get(copy)
  if (byOffer !== undefined) fits.set(job, byOffer)
}
