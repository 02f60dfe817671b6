import { noAnswer, Problem, problemOf } from '../../api/request.ts'

export interface ChatUsage {
  readonly completion_tokens: number
  readonly total_tokens: number
  readonly cost_usd: number
}

export interface ChatStart {
  readonly requestId: string | null
  readonly provider: string | null
}

export interface ChatEnd extends ChatStart {
  /** Null if the stream ended before its usage arrived. */
  readonly usage: ChatUsage | null
}

/** What has arrived of an answer. */
export interface ChatContent {
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly ToolCall[]
}

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** JSON, if the model keeps to the rules. */
  readonly arguments: string
}

/**
 * Sends a chat request. Calls `onStart` when the answer begins, and `onContent` with all of it after each piece.
 *
 * @param key an API key, as any program has
 * @throws Problem
 */
export async function streamChat(
  key: string,
  body: object,
  { signal, onStart, onContent }: ChatListener,
): Promise<ChatEnd> {
  const response = await fetch('/v1/chat/completions', {
    method: 'POST',
    signal,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  }).catch(error => {
    throw signal.aborted ? error : noAnswer()
  })
  if (!response.ok || response.body === null) throw await problemOf(response)
  const requestId = response.headers.get('x-request-id')
  const provider = response.headers.get('x-switchyard-provider')
  onStart({ requestId, provider })
  let usage: ChatUsage | null = null
  let content: ChatContent = { text: '', reasoning: '', calls: [] }
  for await (const data of eventsOf(response.body)) {
    if (data === '[DONE]') break
    const chunk = JSON.parse(data) as ChatChunk
    if (chunk.error) {
      const { message, code = 'stream_interrupted' } = chunk.error
      throw new Problem(message, { status: 200, code, requestId })
    }
    usage = chunk.usage ?? usage
    const next = withDelta(content, chunk.choices?.[0]?.delta ?? {})
    if (next !== content) onContent(next)
    content = next
  }
  return { requestId, provider, usage }
}

export interface ChatListener {
  readonly signal: AbortSignal
  readonly onStart: (start: ChatStart) => void
  readonly onContent: (content: ChatContent) => void
}

interface ChatChunk {
  readonly choices?: readonly { readonly delta?: ChatDelta }[]
  readonly usage?: ChatUsage | null
  readonly error?: { readonly message: string; readonly code?: string }
}

interface ChatDelta {
  readonly content?: string | null
  readonly reasoning_content?: string | null
  readonly tool_calls?: readonly {
    readonly index: number
    readonly id?: string
    readonly function?: { readonly name?: string; readonly arguments?: string }
  }[]
}

/** Adds a piece. Returns the same object if the piece is empty. */
function withDelta(before: ChatContent, delta: ChatDelta): ChatContent {
  const { content, reasoning_content: reasoning, tool_calls: pieces = [] } = delta
  if (!content && !reasoning && pieces.length === 0) return before
  const calls = [...before.calls]
  for (const { index, id, function: called } of pieces) {
    const call = calls[index] ?? { id: id ?? `call_${index}`, name: '', arguments: '' }
    calls[index] = {
      ...call,
      name: call.name + (called?.name ?? ''),
      arguments: call.arguments + (called?.arguments ?? ''),
    }
  }
  return { text: before.text + (content ?? ''), reasoning: before.reasoning + (reasoning ?? ''), calls }
}

/** Yields the data of server-sent events. Each event of the gateway has one line of data. */
async function* eventsOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = ''
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!
    for (const line of lines) if (line.startsWith('data: ')) yield line.slice('data: '.length)
  }
}
