import type { ChunkDelta, ToolCallDelta } from '../../base/domain/completion.ts'

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
   * they describe the uncut text, and so are tool calls of which nothing fits.
   */
  cut(delta: ChunkDelta): ChunkDelta {
    const { reasoning_content, reasoning, content, refusal, function_call, tool_calls } = delta
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
    const call = function_call as Called | null | undefined
    if (call && this.#unitsLeft > 0) kept.function_call = this.#called(call)
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
