import type { ChatJob } from './chat-job.ts'

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

function asksForMedia({ forward }: ChatJob): boolean {
  const { modalities } = forward
  return Array.isArray(modalities) && modalities.some(modality => modality !== 'text')
}
