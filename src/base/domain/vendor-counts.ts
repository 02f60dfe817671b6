import type { ChatJob } from './chat-job.ts'
import type { Dialect } from './conversation.ts'
import type { Endpoint, Offer } from './offer.ts'
import { dialectAt } from './upstream-dialect.ts'

/** How many of a thing a vendor takes in one request. */
interface VendorCounts {
  /** More are refused, and no tool can be left out: the offer cannot serve the request. */
  readonly tools: number
  /** The gateway cuts the answer at the others itself. */
  readonly stopSequences: number
  /** The stop sequences that it takes. Absent: any. */
  readonly stopSequence?: RegExp
}

const anyCount: VendorCounts = { tools: Number.POSITIVE_INFINITY, stopSequences: Number.POSITIVE_INFINITY }

/** Anthropic: "stop_sequences: each stop sequence must contain non-whitespace". AWS documents the number for Bedrock. */
const anthropicCounts: VendorCounts = { ...anyCount, stopSequences: 8_191, stopSequence: /\S/ }

/**
 * OpenAI: "Invalid 'tools': array too long. Expected an array with maximum length 128" (anomalyco/opencode issue 4909,
 * zed-industries/zed issue 42393), "Invalid 'stop': array too long. Expected an array with maximum length 4"
 * (continuedev/continue issue 1572). DeepSeek, Groq and Mistral document the same numbers, except that DeepSeek takes
 * 16 sequences. Responses has no stop sequences.
 */
const openaiCounts: VendorCounts = { tools: 128, stopSequences: 4 }

const countsByDialect: Readonly<Record<Dialect, VendorCounts>> = {
  chat: openaiCounts,
  responses: openaiCounts,
  messages: anthropicCounts,
  // "At most 512 function declarations can be specified" (google-gemini/gemini-cli issue 19083), "a stopSequences value
  // of 10 but the supported range is from 1 (inclusive) to 6 (exclusive)" (continuedev/continue issue 7849).
  gemini: { tools: 512, stopSequences: 5 },
  // AWS, API reference of Bedrock Runtime: InferenceConfiguration.
  converse: { ...anthropicCounts, stopSequences: 2_500 },
}

/** Clouds of chat that pass requests on to other vendors, or take as many tools as these. */
const manyTools: Readonly<Record<string, number>> = {
  'openrouter.ai': Number.POSITIVE_INFINITY,
  'generativelanguage.googleapis.com': 512,
}

/** Returns what a server takes when it is asked in this dialect. Local servers and those of hosters take any number. */
function countsAt({ kind }: Pick<Endpoint, 'kind'>, dialect: Dialect): VendorCounts {
  return kind !== 'cloud' && (dialect === 'chat' || dialect === 'responses') ? anyCount : countsByDialect[dialect]
}

/**
 * Returns which stop sequences a server gets, and those that the gateway has to look for in the answer: each once, none
 * empty.
 */
export function splitStops(
  given: readonly unknown[],
  endpoint: Pick<Endpoint, 'kind'>,
  dialect: Dialect,
): { readonly sent: readonly unknown[]; readonly cut: readonly string[] } {
  const { stopSequences: max, stopSequence: rule } = countsAt(endpoint, dialect)
  const isTaken = (stop: unknown) => rule === undefined || typeof stop !== 'string' || rule.test(stop)
  if (given.length <= max && (rule === undefined || given.every(isTaken))) return { sent: given, cut: [] }
  const sent: unknown[] = []
  const cut: string[] = []
  for (const stop of new Set(given)) {
    if (isTaken(stop) && sent.length < max) sent.push(stop)
    else if (typeof stop === 'string' && stop !== '') cut.push(stop)
  }
  return { sent, cut }
}

function toolsTaken(endpoint: Endpoint, dialect: Dialect): number {
  const { tools } = countsAt(endpoint, dialect)
  return dialect === 'chat' ? (manyTools[new URL(endpoint.baseUrl).hostname] ?? tools) : tools
}

/** The most sequences that the gateway looks for in an answer, and their characters in all: they take memory. */
const CUT_STOPS_MAX = 256
const CUT_CHARACTERS_MAX = 16_384

/** A request within these fits every server, as most do. `stopCharacters`: of all its stop sequences together. */
export const countsOfAll = {
  tools: openaiCounts.tools,
  stopSequences: CUT_STOPS_MAX,
  stopCharacters: CUT_CHARACTERS_MAX,
} as const

/**
 * Returns what a request has more of than the server of an offer takes, such as `129 tools (at most 128)`; null if it has
 * not.
 */
export function excessAt(offer: Offer, job: ChatJob): string | null {
  const dialect = offer.speaks === undefined ? 'chat' : dialectAt(offer.speaks, job)
  if (dialect === null) return null
  const tools = countTools(job, dialect)
  const toolsMax = toolsTaken(offer.endpoint, dialect)
  if (tools > toolsMax) return `${tools} tools (at most ${toolsMax})`
  return excessOfStops(stopsOf(job.forward.stop), offer.endpoint, dialect)
}

function excessOfStops(stops: readonly unknown[], endpoint: Endpoint, dialect: Dialect): string | null {
  const max = countsAt(endpoint, dialect).stopSequences + CUT_STOPS_MAX
  if (stops.length > max) return `${stops.length} stop sequences (at most ${max})`
  const { cut } = splitStops(stops, endpoint, dialect)
  if (cut.length > CUT_STOPS_MAX) {
    return `${cut.length} stop sequences that the server does not take (at most ${CUT_STOPS_MAX})`
  }
  const characters = charactersOf(cut)
  if (characters <= CUT_CHARACTERS_MAX) return null
  return `${characters} characters of stop sequences that the server does not take (at most ${CUT_CHARACTERS_MAX})`
}

const noStops: readonly unknown[] = []

/** One sequence needs no list. */
function stopsOf(stop: unknown): readonly unknown[] {
  if (Array.isArray(stop)) return stop
  return typeof stop === 'string' ? [stop] : noStops
}

function charactersOf(stops: readonly unknown[]): number {
  return stops.reduce<number>((sum, stop) => sum + (typeof stop === 'string' ? stop.length : 0), 0)
}

/** A namespace is one tool where it stays one. Of tools with one name, one is sent. */
function countTools({ source, forward }: ChatJob, dialect: Dialect): number {
  const own = source?.dialect === 'responses' && dialect === 'responses' ? source.body.tools : undefined
  const tools = (Array.isArray(own) ? own : (forward.tools ?? [])) as readonly ToolLike[]
  return new Set(tools.map((tool, at) => tool.function?.name ?? tool.custom?.name ?? tool.name ?? at)).size
}

type ToolLike = {
  readonly name?: unknown
  readonly function?: { readonly name?: unknown } | null
  readonly custom?: { readonly name?: unknown } | null
}
