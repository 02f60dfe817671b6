import { type ChatJob, fitOf } from '../../base/domain/chat-job.ts'
import { type ChatChunk, type ChunkDelta, citedText } from '../../base/domain/completion.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { countTokens, estimateTokens } from '../../wire/tokens/count-tokens.ts'

/** Returns the generated text of a whole answer, all choices joined. */
export function generatedText(messages: readonly ChunkDelta[]): string {
  let all = ''
  for (const message of messages) {
    eachGeneratedText(message, text => {
      all += text
    })
  }
  return all
}

/**
 * Passes every generated text of a delta or message to `onText`: reasoning, content, refusal, names and
 * arguments of tool calls, the transcript of audio. `TextCutter` takes them in the same order.
 */
export function eachGeneratedText(delta: ChunkDelta, onText: (text: string) => void): void {
  const { content, reasoning_content, reasoning, refusal } = delta
  // Some servers send one reasoning under both names.
  if (isText(reasoning_content)) onText(reasoning_content)
  else if (isText(reasoning)) onText(reasoning)
  if (isText(content)) onText(content)
  if (isText(refusal)) onText(refusal)
  // The older form of a tool call, which some servers still send.
  const { function_call: call, audio } = delta as { function_call?: Call | null; audio?: Audio | null }
  if (call) eachCallText(call, onText)
  if (typeof audio?.transcript === 'string') onText(audio.transcript)
  if (delta.tool_calls) {
    for (const call of delta.tool_calls) {
      eachCallText(call.function, onText)
      eachCallText(call.custom as Call | undefined, onText)
    }
  }
}

/** True if a delta or message carries audio or images. */
export function hasMedia(delta: ChunkDelta): boolean {
  const { audio, images } = delta as { audio?: Audio | null; images?: unknown }
  return (typeof audio?.data === 'string' && audio.data !== '') || (Array.isArray(images) && images.length > 0)
}

/** The fields of a delta that `eachGeneratedText` and `hasMedia` know. */
const countedFields: ReadonlySet<string> = new Set([
  ...['role', 'content', 'reasoning_content', 'reasoning', 'refusal', 'tool_calls', 'function_call'],
])
const countedCallFields: ReadonlySet<string> = new Set(['index', 'id', 'type', 'function', 'custom'])

/** True if a chunk has fields that are passed on and not counted as text. */
export function hasOtherFields({ choices }: ChatChunk): boolean {
  for (const { delta, logprobs } of choices) {
    if (logprobs !== undefined || delta[citedText] !== undefined) return true
    for (const key in delta) if (!countedFields.has(key)) return true
    if (!delta.tool_calls) continue
    for (const call of delta.tool_calls) for (const key in call) if (!countedCallFields.has(key)) return true
  }
  return false
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

type Call = { name?: unknown; arguments?: unknown; input?: unknown }
type Audio = { data?: unknown; transcript?: unknown }

/** Upstreams send values of any type as names and arguments; only strings are generated text. */
function eachCallText(call: Call | null | undefined, onText: (text: string) => void): void {
  if (typeof call?.name === 'string') onText(call.name)
  if (typeof call?.arguments === 'string') onText(call.arguments)
  if (typeof call?.input === 'string') onText(call.input)
}

/** Up to this limit of tokens, a text is counted early: a slack of eight characters a token would hide too much. */
const SMALL_LIMIT_TOKENS = 64
/** A text that is cut is counted exactly up to this length: 1 ms for prose, 20 ms for the slowest text found. */
const EXACT_UNITS_MAX = 16_384
const SLICE_UNITS = 512

/**
 * Returns the count above which an answer clearly exceeds `tokensMax`. The slack is for upstreams with a tokenizer
 * that makes fewer tokens than the gateway's. The bill stays within the limit in any case.
 */
export function tokensWithSlack(tokensMax: number): number {
  return tokensMax * 1.25 + 8
}

/**
 * Whether the server was asked for more tokens than the client, because its vendor takes no lower limit: then the gateway cuts
 * at the limit itself.
 */
export function hasRaisedLimit(job: ChatJob, offer: Offer): boolean {
  return fitOf(job, offer)?.changed.has('max_output_tokens') === true
}

/** Returns the size, as `textSize` measures it, up to which a text is not counted. Most tokens have four bytes. */
export function uncountedSize(tokensMax: number): number {
  return tokensMax <= SMALL_LIMIT_TOKENS ? tokensMax * 4 + 8 : tokensMax * 8
}

/** In bytes for a small limit, because other scripts have several tokens a character; otherwise in UTF-16 units. */
export function textSize(text: string, tokensMax: number): number {
  return tokensMax <= SMALL_LIMIT_TOKENS ? Buffer.byteLength(text) : text.length
}

/**
 * Returns where a text must be cut because it clearly exceeds `tokensMax`, in UTF-16 units, or null. The cut of a
 * long text is estimated and leaves at most about `tokensMax`.
 *
 * @param allowed the count above which it is cut
 */
export function limitPosition(
  text: string,
  tokensMax: number,
  allowed: number = tokensWithSlack(tokensMax),
): number | null {
  if (text.length > EXACT_UNITS_MAX) {
    const tokens = estimateTokens(text)
    return tokens > allowed ? withoutHalfPair(text, Math.floor((text.length * tokensMax) / tokens)) : null
  }
  let counted = 0
  for (let start = 0; start < text.length; start += SLICE_UNITS) {
    const slice = text.slice(start, start + SLICE_UNITS)
    const tokens = countTokens(slice)
    if (counted + tokens > allowed) return start + lengthWithin(slice, allowed - counted)
    counted += tokens
  }
  return null
}

/** Returns the length of the longest beginning with at most `tokensMax` tokens. The text must be short. */
export function lengthWithin(text: string, tokensMax: number): number {
  let fits = 0
  let exceeds = text.length + 1
  while (exceeds - fits > 1) {
    const middle = (fits + exceeds) >> 1
    if (countTokens(text.slice(0, middle)) <= tokensMax) fits = middle
    else exceeds = middle
  }
  return withoutHalfPair(text, fits)
}

/** Moves a cut that would split a surrogate pair. */
function withoutHalfPair(text: string, length: number): number {
  const isSplit = length < text.length && (text.charCodeAt(length) & 0xfc00) === 0xdc00
  return isSplit ? length - 1 : length
}
