import { type ChatJob, fitOf } from './chat-job.ts'
import type { Ticket } from './handoff.ts'
import { affordableOutputTokens, costNanos, type Nanos, type PriceStep, stepOf } from './money.ts'
import type { Offer } from './offer.ts'
import type { NotedClamp } from './routing-note.ts'

/** The fields of an offer on which a hold depends. */
export type HeldOffer = Pick<Offer, 'price' | 'upstreamModel' | 'speaks'>

/**
 * Returns the most that a job can cost at this offer with so many output tokens in all, whatever parts the upstream
 * reports. Long writes count only where they have a price: elsewhere no server is asked for them.
 */
export function heldNanos(offer: HeldOffer, job: ChatJob, outputTokens: number): Nanos {
  const { price } = offer
  const inputTokens = heldInputTokens(offer, job)
  if (price.terms === undefined) return costNanos(price, inputTokens, outputTokens)
  const step = stepOf(price.terms, inputTokens)
  return costNanos(step.held, inputTokens, outputTokens, heldPartPicos(step, job))
}

/**
 * Returns the most output tokens in all that `budgetNanos` pays for at this offer; negative when the prompt costs more.
 */
export function affordableTokensAt(offer: HeldOffer, job: ChatJob, budgetNanos: Nanos): number {
  const { price } = offer
  const inputTokens = heldInputTokens(offer, job)
  if (price.terms === undefined) return affordableOutputTokens(price, inputTokens, budgetNanos)
  const step = stepOf(price.terms, inputTokens)
  return affordableOutputTokens(step.held, inputTokens, budgetNanos, heldPartPicos(step, job))
}

/** Returns the most input tokens that are billed at this offer, whatever its server reports. */
export function billableInputTokens(offer: HeldOffer, job: ChatJob): number {
  return job.inputTokensBound + addedTokens(offer, job)
}

/** Returns the tokens of the prompt that a hold must cover: fewer than its bytes once its text has been measured. */
function heldInputTokens(offer: HeldOffer, job: ChatJob): number {
  const { inputTokensBound, promptTextBytes, promptLength } = job
  const bound =
    promptLength === undefined
      ? inputTokensBound
      : Math.min(inputTokensBound, inputTokensBound - promptTextBytes + promptLength.tokensBound)
  return bound + addedTokens(offer, job)
}

function heldPartPicos({ heldMediaPicos, heldPerRequestPicos }: PriceStep, job: ChatJob): bigint {
  return heldMediaPicos * BigInt(job.mediaTokensBound) + heldPerRequestPicos
}

/** Anthropic's price list of November 2026: up to 804, by the model and the tool choice. */
const TOOL_PROMPT_TOKENS = 1_024
/** Anthropic does not publish the length of the prompt that asks for a JSON schema. */
const SCHEMA_PROMPT_TOKENS = 1_024

/**
 * Returns an upper bound of the tokens that the server adds to the prompt, such as its own instructions to use tools.
 */
function addedTokens(offer: HeldOffer, { features }: ChatJob): number {
  if (features.size === 0 || !hasOwnPrompts(offer)) return 0
  return (features.has('tools') ? TOOL_PROMPT_TOKENS : 0) + (features.has('json_schema') ? SCHEMA_PROMPT_TOKENS : 0)
}

/** Whether the offer is a model of Anthropic, at any cloud and in any dialect. */
function hasOwnPrompts({ upstreamModel, speaks }: HeldOffer): boolean {
  return speaks?.includes('messages') === true || /claude/i.test(upstreamModel)
}

/**
 * Returns the most output tokens per choice to request from this offer when the ticket allows `maxTokens`, at
 * least 1. Lowered to what the model generates and to what fits into its context along with the prompt. Servers
 * refuse more (vLLM and OpenAI: 400), and coding agents always ask for 32,000.
 */
export function outputCap(offer: Offer, job: ChatJob, maxTokens: number): number {
  const likelyRoom = offer.contextTokens - likelyInputTokens(job)
  // A default is lowered further: nobody asked for it, so an answer that may be cut is better than a refusal.
  const leastRoom = job.maxTokens === null ? USEFUL_TOKENS_MIN : Math.min(LOWERED_TO_MIN, largestRoom(offer, job))
  return Math.max(1, Math.min(maxTokens, offer.maxOutputTokens, Math.max(likelyRoom, leastRoom)))
}

/**
 * Returns why this offer was asked for fewer tokens than the request named, or than the default if `asked` is
 * null; null when it was not.
 */
export function clampAt(ticket: Ticket, job: ChatJob, offer: Offer | null): NotedClamp | null {
  const allowed = offer === null ? ticket.maxTokens : outputCap(offer, job, ticket.maxTokens)
  if (job.maxTokens !== null && allowed < ticket.maxTokens) return { asked: job.maxTokens, allowed, by: 'model' }
  return ticket.clamp && { asked: ticket.clamp.asked, allowed, by: ticket.clamp.by }
}

/**
 * The most output tokens that can fit into the context of this offer along with the prompt; below 1 when the
 * prompt alone is too long. `inputTokensBound` counts bytes, several times the number of tokens, so refusing by it
 * would turn away prompts that fit.
 */
export function largestRoom(offer: Offer, job: ChatJob): number {
  return offer.contextTokens - (job.longestInputTokensMin ?? fewestTokens(job.inputTokensBound - job.mediaTokensBound))
}

/** Returns the tokens that a text of so many bytes has at least. */
export function fewestTokens(textBytes: number): number {
  return Math.floor(textBytes / MOST_BYTES_PER_TOKEN)
}

/**
 * Common tokenizers stay below 8 bytes a token for running text in any script (English 4 to 5, code 3, Hindi up to
 * 7). Images are not counted.
 */
const MOST_BYTES_PER_TOKEN = 8

/**
 * An answer shorter than this is not worth its prompt. Request at least this many tokens; the server decides whether
 * they fit.
 */
export const USEFUL_TOKENS_MIN = 16

/**
 * An explicit limit is not lowered below this because of the estimate alone: a tool call of an agent that is cut
 * short is lost, and the server knows better whether so few tokens fit.
 */
const LOWERED_TO_MIN = 1_024

/**
 * English has about 4 bytes a token, code 3. At 0.35 tokens a byte the estimate of a prompt is usually too high
 * rather than too low.
 */
const LIKELY_TOKENS_PER_BYTE = 0.35

/** Returns the likely tokens of the prompt, usually too many. */
export function likelyInputTokens(job: ChatJob): number {
  const textBytes = job.inputTokensBound - job.mediaTokensBound
  return Math.ceil(textBytes * LIKELY_TOKENS_PER_BYTE) + job.mediaTokensBound
}

/**
 * Whether the server was asked for more tokens than the client allows, because its vendor takes no lower limit. The
 * gateway then cuts at the limit itself.
 */
export function hasRaisedLimit(job: ChatJob, offer: Offer): boolean {
  return fitOf(job, offer)?.changed.has('max_output_tokens') === true
}

/**
 * Returns the count above which an answer clearly exceeds `tokensMax`. The slack is for upstreams with a tokenizer
 * that makes fewer tokens than the gateway's. The bill stays within the limit in any case.
 */
export function tokensWithSlack(tokensMax: number): number {
  return tokensMax * 1.25 + 8
}

/** Up to this limit of tokens, a text is counted early: a slack of eight characters a token would hide too much. */
const SMALL_LIMIT_TOKENS = 64

/** Returns the size, as `textSize` measures it, up to which a text is not counted. Most tokens have four bytes. */
export function uncountedSize(tokensMax: number): number {
  return tokensMax <= SMALL_LIMIT_TOKENS ? tokensMax * 4 + 8 : tokensMax * 8
}

/** In bytes for a small limit, because other scripts have several tokens a character; otherwise in UTF-16 units. */
export function textSize(text: string, tokensMax: number): number {
  return tokensMax <= SMALL_LIMIT_TOKENS ? Buffer.byteLength(text) : text.length
}

/** How much an upstream may send for one request. More is a fault of the upstream, or is cut. */
export interface AnswerBounds {
  /** Bytes of a whole answer. */
  readonly wholeBytes: number
  /** Bytes of one event of a stream. */
  readonly eventBytes: number
  /** Opening brackets, colons and commas outside strings, in a whole answer or one event. */
  readonly delimiters: number
  /** The same, in all events of a stream together. */
  readonly streamDelimiters: number
  /** Bytes of the chunks of a stream that have fields which the gateway does not count as text. */
  readonly otherBytes: number
}

const KIB = 1_024
const MIB = 1_048_576

/** An upper bound for any answer. Images and audio are megabytes of base64. */
const WHOLE_BYTES_MAX = 16 * MIB
/** Room for what does not grow with the text: citations, encrypted reasoning, tool calls with signatures. */
const BASE_BYTES = 256 * KIB
/** Most tokens have 4 bytes. A character of other scripts, escaped as in `\u6f22`, has 6 to 12. */
const BYTES_PER_TOKEN = 64
/** A chunk with its envelope and a second copy of its text, as OpenRouter sends it in `reasoning_details`. */
const CHUNK_BYTES_PER_TOKEN = 1_024
/** One log probability: the token as text and as a list of bytes, and a number of up to 20 digits. */
const LOGPROB_BYTES = 256
const LOGPROB_DELIMITERS = 16
/** 16,000 different names take about 25 ms to parse. No answer without log probabilities needs as many. */
const DELIMITERS = 32_768
const STREAM_DELIMITERS = 1_048_576
const LOGPROBS_DELIMITERS_MAX = 4_194_304
const CHUNK_DELIMITERS_PER_TOKEN = 64

/** Returns the bounds for an answer to this job with at most `maxTokens` output tokens per choice. */
export function answerBounds(job: ChatJob, maxTokens: number): AnswerBounds {
  const tokens = maxTokens * job.choices
  const logprobs = tokens * logprobsPerToken(job)
  const mayHaveMedia = asksForMedia(job)
  return {
    wholeBytes: mayHaveMedia
      ? WHOLE_BYTES_MAX
      : Math.min(WHOLE_BYTES_MAX, BASE_BYTES + tokens * BYTES_PER_TOKEN + logprobs * LOGPROB_BYTES),
    eventBytes: mayHaveMedia ? WHOLE_BYTES_MAX : MIB,
    delimiters: Math.min(LOGPROBS_DELIMITERS_MAX, DELIMITERS + logprobs * LOGPROB_DELIMITERS),
    streamDelimiters: STREAM_DELIMITERS + tokens * CHUNK_DELIMITERS_PER_TOKEN + logprobs * LOGPROB_DELIMITERS,
    otherBytes:
      (mayHaveMedia ? WHOLE_BYTES_MAX : BASE_BYTES) + tokens * CHUNK_BYTES_PER_TOKEN + logprobs * LOGPROB_BYTES,
  }
}

function logprobsPerToken({ forward }: ChatJob): number {
  // Text completions name the number of tokens to list.
  if (typeof forward.logprobs === 'number') return 1 + forward.logprobs
  if (forward.logprobs !== true) return 0
  return 1 + (typeof forward.top_logprobs === 'number' ? forward.top_logprobs : 0)
}

export function asksForMedia({ forward }: ChatJob): boolean {
  const { modalities } = forward
  return Array.isArray(modalities) && modalities.some(modality => modality !== 'text')
}
