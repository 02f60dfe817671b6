import type { ChunkDelta, ToolCallDelta } from '../../base/domain/completion.ts'
import { tokensWithSlack } from '../../base/domain/request-bounds.ts'
import { countTokens, estimateTokens } from '../../wire/tokens/count-tokens.ts'

/** A text that is cut is counted exactly up to this length: 1 ms for prose, 20 ms for the slowest text found. */
const EXACT_UNITS_MAX = 16_384
const SLICE_UNITS = 512

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
    return tokens > allowed ? Math.max(0, withoutHalfPair(text, Math.floor((text.length * tokensMax) / tokens))) : null
  }
  let counted = 0
  for (let start = 0; start < text.length; start += SLICE_UNITS) {
    const slice = text.slice(start, start + SLICE_UNITS)
    const tokens = countTokens(slice)
    if (counted + tokens > allowed) return Math.max(0, start + lengthWithin(slice, allowed - counted))
    counted += tokens
  }
  return null
}

/**
 * Returns the length of the longest beginning with at most `tokensMax` tokens. The text must be short. -1: nothing fits,
 * and the text begins with the second half of a surrogate pair, whose first half may end the slice before.
 */
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

/**
 * Cuts generated texts after a number of UTF-16 units. The texts are taken in the order in which
 * `eachGeneratedText` counts them.
 */
export class TextCutter {
  #unitsLeft: number

  constructor(units: number) {
    this.#unitsLeft = units
  }

  /**
   * Returns what fits of a delta or message, without empty texts. Fields other than text are left out, because
   * they describe the uncut text, and so are tool calls of which nothing fits. Audio is left out as well, though its
   * transcript counts.
   */
  cut(delta: ChunkDelta): ChunkDelta {
    const { reasoning_content, reasoning, content, refusal, tool_calls } = delta
    // The older form of a tool call, and a field of models that speak.
    const { function_call: call, audio } = delta as {
      function_call?: Called | null
      audio?: { transcript?: unknown } | null
    }
    const kept: ChunkDelta = {}
    // One reasoning under two names counts once.
    const thought = firstText(reasoning_content, reasoning)
    const keptThought = this.#text(thought)
    if (keptThought !== '') {
      if (reasoning_content === thought) kept.reasoning_content = keptThought
      if (reasoning === thought) kept.reasoning = keptThought
    }
    const keptContent = this.#text(firstText(content))
    if (keptContent !== '') kept.content = keptContent
    const keptRefusal = this.#text(firstText(refusal))
    if (keptRefusal !== '') kept.refusal = keptRefusal
    if (call && this.#unitsLeft > 0) kept.function_call = this.#called(call)
    this.#text(firstText(audio?.transcript))
    const calls = tool_calls?.flatMap(call => this.#toolCall(call)) ?? []
    if (calls.length > 0) kept.tool_calls = calls
    return kept
  }

  #toolCall(call: ToolCallDelta): ToolCallDelta[] {
    if (this.#unitsLeft === 0) return []
    const custom = call.custom as Called | undefined
    return [
      {
        ...call,
        ...(call.function && { function: this.#called(call.function) }),
        ...(custom && { custom: this.#called(custom) }),
      },
    ]
  }

  #called(call: Called): Called {
    const kept: Called = { ...call }
    for (const field of ['name', 'arguments', 'input'] as const) {
      const text = call[field]
      if (typeof text === 'string') kept[field] = this.#text(text)
    }
    return kept
  }

  #text(text: string): string {
    const kept = text.slice(0, this.#unitsLeft)
    this.#unitsLeft -= kept.length
    return kept
  }
}

type Called = { name?: string; arguments?: string; input?: string }

function firstText(...values: unknown[]): string {
  return (values.find(value => typeof value === 'string' && value !== '') as string | undefined) ?? ''
}
