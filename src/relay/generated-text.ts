import type { ChunkDelta } from '../domain/completion.ts'

/** The generated text of a whole answer, all choices joined. */
export function generatedText(messages: readonly ChunkDelta[]): string {
  let all = ''
  for (const message of messages) {
    eachGeneratedText(message, text => {
      all += text
    })
  }
  return all
}

/** Passes every generated text of a delta or message to `take`: content, reasoning, refusal, names and arguments of tool calls. */
export function eachGeneratedText(delta: ChunkDelta, take: (text: string) => void): void {
  const { content } = delta
  if (typeof content === 'string' && content !== '') take(content)
  for (const field of ['reasoning_content', 'reasoning', 'refusal'] as const) {
    const text = delta[field]
    if (typeof text === 'string' && text !== '') {
      take(text)
      break
    }
  }
  // The older form of a tool call, which some servers still speak.
  const { function_call: call } = delta as { function_call?: Call | null }
  if (call) eachTextOfCall(call, take)
  if (delta.tool_calls) {
    for (const call of delta.tool_calls) {
      eachTextOfCall(call.function, take)
      eachTextOfCall(call.custom as Call | undefined, take)
    }
  }
}

type Call = { name?: unknown; arguments?: unknown; input?: unknown }

/** Upstreams send values of any type as names and arguments; only strings are generated text. */
function eachTextOfCall(call: Call | null | undefined, take: (text: string) => void): void {
  if (typeof call?.name === 'string') take(call.name)
  if (typeof call?.arguments === 'string') take(call.arguments)
  if (typeof call?.input === 'string') take(call.input)
}
