/** A JSON object with unchecked contents. */
type JsonObject = Readonly<Record<string, unknown>>

/** The wire formats that clients and upstreams speak. */
export const dialects = ['chat', 'responses', 'messages', 'gemini', 'converse'] as const
export type Dialect = (typeof dialects)[number]

/**
 * A request as every dialect can express it. Chat and messages make it only for a server of another dialect, and pass the
 * body through otherwise; responses and gemini make it when they parse a request, and write the bodies of gemini from it.
 * Ids are opaque and never carry other data.
 */
export interface Conversation {
  /** The instructions before the first turn. */
  readonly system: readonly TextPart[]
  readonly turns: readonly Turn[]
  readonly tools: readonly Tool[]
  readonly toolChoice: ToolChoice | null
  /** False if the model may make only one tool call per turn; null when not sent. */
  readonly parallelToolCalls: boolean | null
  readonly maxOutputTokens: number | null
  readonly sampling: Sampling
  readonly reasoning: ReasoningSettings
  readonly outputFormat: OutputFormat | null
  readonly verbosity: 'low' | 'medium' | 'high' | null
  /** `prompt_cache_key`, or null. */
  readonly cacheKey: string | null
  /** The customer's id of its end user, or null. */
  readonly endUser: string | null
}

/** `system` only for instructions after the first turn. Neighbouring turns may have the same role. */
export interface Turn {
  readonly role: 'user' | 'assistant' | 'system'
  readonly parts: readonly Part[]
}

export type Part =
  | TextPart
  | ImagePart
  | AudioPart
  | DocumentPart
  | ToolCallPart
  | ToolResultPart
  | ReasoningPart
  | RefusalPart
  | OpaquePart

/** Asks a cache to keep the prompt up to here. */
export type CacheHint = 'short' | 'long'

interface Cacheable {
  readonly cache?: CacheHint
}

export interface TextPart extends Cacheable {
  readonly kind: 'text'
  readonly text: string
}

/** Where media come from: an https or `data:` address, or base64 with its media type, for example `image/png`. */
export type MediaSource = { readonly url: string } | { readonly mediaType: string; readonly base64: string }

export interface ImagePart extends Cacheable {
  readonly kind: 'image'
  readonly source: MediaSource
  readonly detail?: string
}

export interface AudioPart {
  readonly kind: 'audio'
  /** For example `wav` or `mp3`. */
  readonly format: string
  readonly base64: string
}

export interface DocumentPart extends Cacheable {
  readonly kind: 'document'
  readonly source: MediaSource
  readonly name?: string
}

export interface ToolCallPart extends Cacheable {
  readonly kind: 'tool_call'
  readonly id: string
  readonly name: string
  /** The namespace of the tool; only `responses` has them. */
  readonly namespace?: string
  /** `custom`: the tool takes free text instead of JSON. */
  readonly toolKind: ToolKind
  /** The arguments as the model wrote them: usually JSON, free text for custom tools. */
  readonly arguments: string
  /** A seal that belongs to the call itself, as Gemini has them. */
  readonly seal?: Seal
}

/** Belongs to a user turn. */
export interface ToolResultPart extends Cacheable {
  readonly kind: 'tool_result'
  readonly callId: string
  readonly toolKind: ToolKind
  readonly content: readonly (TextPart | ImagePart | DocumentPart)[]
  readonly isError: boolean
}

/**
 * What the model thought. `text` is empty when the provider keeps it secret. Without a seal of the upstream's family
 * the whole part is dropped on the way to an upstream that seals, because it would be refused.
 */
export interface ReasoningPart {
  readonly kind: 'reasoning'
  readonly text: string
  readonly seal?: Seal
  /** The item's id in `responses`. */
  readonly id?: string
}

export const sealFamilies = ['openai', 'anthropic', 'google', 'text'] as const

/** Opaque proof of reasoning, valid only where it was made. */
export interface Seal {
  /** `text`: the server wants the text of the reasoning back, which is the text of the part. `data` is then empty. */
  readonly family: (typeof sealFamilies)[number]
  readonly data: string
  /** The tag of the upstream account that made it, where only that account accepts it. */
  readonly account?: string
  /** Anthropic's `redacted_thinking`: there is no text, the data are all. */
  readonly isRedacted?: boolean
}

export interface RefusalPart {
  readonly kind: 'refusal'
  readonly text: string
}

/** A part that only its own dialect knows. It is dropped on the way to another. */
export interface OpaquePart {
  readonly kind: 'opaque'
  readonly dialect: Dialect
  readonly json: JsonObject
}

export type ToolKind = 'function' | 'custom'

/** Tools that OpenAI's models know without a definition, and that the client runs. */
export type ClientToolType = 'apply_patch' | 'shell' | 'local_shell' | 'computer' | 'computer_use_preview'

export interface Tool extends Cacheable {
  readonly kind: ToolKind
  readonly name: string
  readonly namespace?: string
  readonly description: string | null
  /** JSON Schema of the arguments; null for a custom tool and for a function without any. */
  readonly parameters: JsonObject | null
  readonly strict: boolean | null
  /** The type of the tool for the client, if it is one that OpenAI's models know without a definition. */
  readonly clientTool?: ClientToolType
  /** Google's models know the function without a definition. */
  readonly isPredefined?: true
  /** The syntax of a custom tool's input. Only OpenAI's models obey it. */
  readonly grammar?: { readonly syntax: string; readonly definition: string }
}

/** `must`: any tool. `only`: the named one. */
export type ToolChoice =
  | { readonly kind: 'auto' | 'none' | 'must' }
  | { readonly kind: 'only'; readonly name: string; readonly namespace?: string }

export interface Sampling {
  readonly temperature: number | null
  readonly topP: number | null
  readonly topK: number | null
  readonly presencePenalty: number | null
  readonly frequencyPenalty: number | null
  readonly seed: number | null
  readonly stop: readonly string[]
}

export type Effort = 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max'

export interface ReasoningSettings {
  /** Null: the model's default. */
  readonly effort: Effort | null
  /** Whether the client wants to see reasoning; null: the dialect's default. */
  readonly isShown: boolean | null
}

export type OutputFormat =
  | { readonly kind: 'json' }
  | {
      readonly kind: 'json_schema'
      readonly name: string
      readonly schema: JsonObject
      readonly description: string | null
      readonly strict: boolean | null
    }
