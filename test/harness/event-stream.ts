import type { ChunkDelta, TokenUsage } from '../../src/base/domain/completion.ts'

export interface ReceivedChunk {
  readonly id: string
  readonly object: string
  readonly created: number
  readonly model: string
  readonly choices: readonly { index: number; delta: ChunkDelta; finish_reason: string | null; logprobs?: unknown }[]
  readonly usage?: TokenUsage | null
}

/** The value of `error` in an error body. */
export interface ApiErrorBody {
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string
}

interface ApiErrorEvent {
  readonly error: ApiErrorBody
}

/** A chat completion stream as a client sees it. */
export interface EventStream {
  /** The JSON of the `data:` lines, except an error. */
  readonly chunks: readonly ReceivedChunk[]
  /** Comment lines such as `: ping`. */
  readonly comments: readonly string[]
  /** Whether the stream ended with `data: [DONE]`. */
  readonly done: boolean
  /** The error of the last chunk, if it was an error chunk. */
  readonly error: ApiErrorBody | null
  /** The content of the first choice. */
  readonly text: string
  readonly finishReasons: readonly string[]
  readonly usage: TokenUsage | null
}

/** Reads a stream to its end. Rejects if the connection breaks. */
export async function readEventStream(response: Response): Promise<EventStream> {
  return parseEventStream(await response.text())
}

export function parseEventStream(text: string): EventStream {
  const lines = text.split('\n').filter(Boolean)
  const data = lines.filter(line => line.startsWith('data: ')).map(line => line.slice('data: '.length))
  const unknown = lines.filter(line => !line.startsWith('data: ') && !line.startsWith(':'))
  if (unknown.length > 0) throw new Error(`This is not a line of a chat stream: ${unknown[0]}`)
  const done = data.at(-1) === '[DONE]'
  const events = (done ? data.slice(0, -1) : data).map(json => JSON.parse(json) as ReceivedChunk | ApiErrorEvent)
  const chunks = events.filter((event): event is ReceivedChunk => !('error' in event))
  const failure = events.find((event): event is ApiErrorEvent => 'error' in event)
  // Some SDKs ignore an error in a chunk that also has `choices`, and treat the partial answer as complete.
  if (failure && (failure !== events.at(-1) || Object.keys(failure).length > 1)) {
    throw new Error(`An error chunk must come last and contain only the error: ${JSON.stringify(failure)}`)
  }
  const choices = chunks.flatMap(chunk => chunk.choices)
  return {
    chunks,
    comments: lines.filter(line => line.startsWith(':')),
    done,
    error: failure?.error ?? null,
    text: choices.map(choice => (choice.index === 0 && choice.delta.content) || '').join(''),
    finishReasons: choices.flatMap(choice => choice.finish_reason ?? []),
    usage: chunks.findLast(chunk => chunk.usage)?.usage ?? null,
  }
}

/** Returns the error in a response body. Throws if the body has no error. */
export async function readError(response: Response): Promise<ApiErrorBody & { status: number }> {
  const { error } = (await response.json()) as { error?: ApiErrorBody }
  if (!error) throw new Error(`The body has no error; the status is ${response.status}`)
  return { ...error, status: response.status }
}

/** Reads until `text` has arrived and leaves the rest unread. Returns everything read. */
export async function readUntil(reader: ReadableStreamDefaultReader<Uint8Array>, text: string): Promise<string> {
  const decoder = new TextDecoder()
  let seen = ''
  while (!seen.includes(text)) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`The stream ended before ${JSON.stringify(text)}: ${seen}`)
    seen += decoder.decode(value, { stream: true })
  }
  return seen
}
