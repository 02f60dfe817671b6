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
}

const anyCount: VendorCounts = { tools: Number.POSITIVE_INFINITY, stopSequences: Number.POSITIVE_INFINITY }

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
  // AWS documents 8,191 for Anthropic's models on Bedrock. No request has as many.
  messages: anyCount,
  // "At most 512 function declarations can be specified" (google-gemini/gemini-cli issue 19083), "a stopSequences value
  // of 10 but the supported range is from 1 (inclusive) to 6 (exclusive)" (continuedev/continue issue 7849).
  gemini: { tools: 512, stopSequences: 5 },
  // AWS, API reference of Bedrock Runtime: InferenceConfiguration.
  converse: { ...anyCount, stopSequences: 2_500 },
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

/** Returns how many stop sequences a server takes. */
export function stopsTaken(endpoint: Pick<Endpoint, 'kind'>, dialect: Dialect): number {
  return countsAt(endpoint, dialect).stopSequences
}

function toolsTaken(endpoint: Endpoint, dialect: Dialect): number {
  const { tools } = countsAt(endpoint, dialect)
  return dialect === 'chat' ? (manyTools[new URL(endpoint.baseUrl).hostname] ?? tools) : tools
}

/** The gateway looks for this many sequences in an answer at most: each costs time for each character. */
const CUT_STOPS_MAX = 256
/** A request within these fits every server, as most do. */
export const countsOfAll: VendorCounts = { tools: openaiCounts.tools, stopSequences: CUT_STOPS_MAX }

/**
 * Returns what a request has more of than the server of an offer takes, such as `129 tools (at most 128)`; null if it has
 * not.
 */
export function excessAt(offer: Offer, job: ChatJob): string | null {
  const { stop } = job.forward
  const dialect = offer.speaks === undefined ? 'chat' : dialectAt(offer.speaks, job)
  if (dialect === null) return null
  const [tools, toolsMax] = [countTools(job, dialect), toolsTaken(offer.endpoint, dialect)]
  if (tools > toolsMax) return `${tools} tools (at most ${toolsMax})`
  const stopsMax = stopsTaken(offer.endpoint, dialect) + CUT_STOPS_MAX
  return Array.isArray(stop) && stop.length > stopsMax ? `${stop.length} stop sequences (at most ${stopsMax})` : null
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
