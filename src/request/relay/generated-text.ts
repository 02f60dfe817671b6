import { type ChatChunk, type ChunkDelta, citedText } from '../../base/domain/completion.ts'

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
