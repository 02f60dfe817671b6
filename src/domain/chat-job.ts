import type { Nanos } from './money.ts'

export const serviceTiers = ['cheapest', 'balanced', 'fastest'] as const
/** How the customer wants offers ranked. Not to be confused with the account tier, which sets limits. */
export type ServiceTier = (typeof serviceTiers)[number]

export const insufficientChoices = ['refuse', 'clamp'] as const
/** What to do when `max_tokens` cannot be paid for: refuse with 402, or lower it to what can. */
export type OnInsufficient = (typeof insufficientChoices)[number]

export const features = ['tools', 'images', 'audio', 'json_schema'] as const
/** Something an offer must be able to do because the request uses it. */
export type Feature = (typeof features)[number]

/** The model id that leaves the choice of the model to routing: it stands for every model that the request does not name. */
export const AUTO_MODEL = 'auto'

/** The routing constraints of a request body. They are hard promises, except `serviceTier`, which orders what they leave over. */
export interface RoutingConstraints {
  readonly serviceTier: ServiceTier
  readonly privacyMode: boolean
  readonly trustedOnly: boolean
  readonly maxLatencyMs: number | null
  readonly fallbackModels: readonly string[]
  /** Lower-case UUIDs; null when the list was not sent. An empty list allows no hoster. */
  readonly allowHosters: ReadonlySet<string> | null
  readonly denyHosters: ReadonlySet<string>
}

/** A chat request after parsing: the gateway's own fields are taken out, everything else is ready to be forwarded. */
export interface ChatJob {
  /** The model id asked for, or AUTO_MODEL. */
  readonly model: string
  readonly constraints: RoutingConstraints
  readonly stream: boolean
  /** The client asked for a usage chunk; upstream is asked for one always. */
  readonly includeUsage: boolean
  /** Explicit max_tokens or max_completion_tokens; null when neither was sent. */
  readonly maxTokens: number | null
  readonly onInsufficient: OnInsufficient
  /** `max_cost_usd`: no more may be held for it, and so no more charged. */
  readonly maxCostNanos: Nanos | null
  /** Only says what would happen and cost. */
  readonly dryRun: boolean
  /** `n`: each choice may use `maxTokens`. */
  readonly choices: number
  /** `stop` names a sequence, so an answer may end before its first word. */
  readonly hasStop: boolean
  readonly features: ReadonlySet<Feature>
  /** No tokenizer makes more tokens of this prompt than this: bytes plus overhead, images and audio at a flat bound. */
  readonly inputTokensBound: number
  /** The prompt's own text (messages and tools), for counting when the upstream does not report. Joined on call. */
  readonly promptText: () => string
  /** Flat token bound of what is not text (images, audio, files); part of `inputTokensBound`. */
  readonly mediaTokensBound: number
  readonly messageCount: number
  /** The OpenAI fields to forward, without model, max_tokens, max_completion_tokens, stream, stream_options and the gateway's own. */
  readonly forward: Readonly<Record<string, unknown>>
}
