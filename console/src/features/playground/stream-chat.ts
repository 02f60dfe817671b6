import { Problem, problemOf } from '../../api/request.ts'

export interface ChatUsage {
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

/**
 * Sends a chat request. Calls `onStart` when the answer begins, and `onText` with each piece of it.
 *
 * @param key an API key, as any program has
 * @throws Problem
 */
export async function streamChat(
  key: string,
  body: object,
  { signal, onStart, onText }: ChatListener,
): Promise<ChatEnd> {
  const response = await fetch('/v1/chat/completions', {
    method: 'POST',
    signal,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  })
  if (!response.ok || response.body === null) throw await problemOf(response)
  const requestId = response.headers.get('x-request-id')
  const provider = response.headers.get('x-switchyard-provider')
  onStart({ requestId, provider })
  let usage: ChatUsage | null = null
  for await (const data of eventsOf(response.body)) {
    if (data === '[DONE]') break
    const chunk = JSON.parse(data) as ChatChunk
    if (chunk.error) {
      throw new Problem(chunk.error.message, { status: 200, code: chunk.error.code ?? 'stream_interrupted', requestId })
    }
    usage = chunk.usage ?? usage
    const text = chunk.choices?.[0]?.delta?.content
    if (text) onText(text)
  }
  return { requestId, provider, usage }
}

export interface ChatListener {
  readonly signal: AbortSignal
  readonly onStart: (start: ChatStart) => void
  readonly onText: (text: string) => void
}

interface ChatChunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[]
  readonly usage?: ChatUsage | null
  readonly error?: { readonly message: string; readonly code?: string }
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
