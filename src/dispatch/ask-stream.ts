import type { ChatChunk, TokenUsage } from '../domain/completion.ts'
import { UpstreamFailure } from '../domain/upstream-failure.ts'
import type { Envelope } from '../wire/envelope.ts'
import { SseDecoder } from '../wire/sse-decoder.ts'
import { ChunkNormaliser, hasContent } from '../wire/upstream-chunk.ts'
import { completionAsChunks, normaliseCompletion } from '../wire/upstream-completion.ts'
import { failureOfResponse } from './classify.ts'
import type { UpstreamAsk, UpstreamClient } from './upstream-client.ts'
import type { UpstreamExchange } from './upstream-exchange.ts'

/** How a stream ended: `complete`, `left` by its reader, or what broke it. */
export type StreamEnding = 'complete' | 'left' | UpstreamFailure

export interface StreamWatcher {
  /** The first content is here: from now on the stream is an answer. */
  onContent(): void
  /** Once, after `onContent`, with the last usage report. Not called if nobody ever reads or leaves the chunks. */
  onEnd(ending: StreamEnding, usage: TokenUsage | null): void
}

/**
 * Asks for a stream and waits for its first content, so that whatever goes wrong before it is this function's
 * UpstreamFailure and nobody has seen anything yet. Resolves with all chunks from the first; leaving them early aborts
 * the upstream, and what goes wrong after the first content is thrown there.
 */
export async function askStream(
  upstream: UpstreamClient,
  ask: UpstreamAsk,
  envelope: Envelope,
  choices: number,
  watcher: StreamWatcher,
): Promise<AsyncIterable<ChatChunk>> {
  const exchange = await upstream.ask(ask)
  const normaliser = new ChunkNormaliser(envelope, choices)
  let answering = false
  const chunks = readChunks(exchange, normaliser, choices, ending => {
    if (answering) watcher.onEnd(ending, normaliser.usage)
  })
  const peeked: ChatChunk[] = []
  while (!answering) {
    const { value, done } = await chunks.next()
    if (done && !isWordlessAnswer(peeked)) throw new UpstreamFailure('empty', 'The stream ended without any output.')
    if (value !== undefined) peeked.push(value)
    answering = done === true || hasContent(peeked.at(-1)!)
    if (!answering) continue
    watcher.onContent()
    if (done) watcher.onEnd('complete', normaliser.usage)
  }
  exchange.contentStarted()
  return replayed(peeked, chunks)
}

/** One generator from bytes to chunks; its `finally` ends the exchange, whoever stops first. */
async function* readChunks(
  exchange: UpstreamExchange,
  normaliser: ChunkNormaliser,
  choices: number,
  onEnd: (ending: StreamEnding) => void,
): AsyncGenerator<ChatChunk, undefined> {
  let ending: StreamEnding = 'left'
  try {
    try {
      if (exchange.status !== 200)
        throw failureOfResponse(exchange.status, exchange.headers, await exchange.errorText())
      rejectUnreadable(exchange)
      if (contentType(exchange).includes('json')) {
        yield* await wholeAsStream(exchange, normaliser, choices)
      } else {
        const decoder = new SseDecoder()
        for await (const bytes of exchange) {
          for (const event of decoder.push(bytes)) {
            for (const chunk of normaliser.push(event)) yield chunk
          }
          if (normaliser.done) break
          if (normaliser.complete) exchange.answerComplete()
        }
        for (const event of decoder.end()) {
          for (const chunk of normaliser.push(event)) yield chunk
        }
      }
    } catch (error) {
      if (!normaliser.complete) throw error
    }
    for (const chunk of normaliser.end()) yield chunk
    ending = 'complete'
  } catch (error) {
    if (error instanceof UpstreamFailure) ending = error
    throw error
  } finally {
    if (ending === 'complete') exchange.release()
    else exchange.abort()
    onEnd(ending)
  }
}

/** Some servers answer `stream: true` with a whole completion, or with an error object and status 200. */
async function wholeAsStream(
  exchange: UpstreamExchange,
  normaliser: ChunkNormaliser,
  choices: number,
): Promise<ChatChunk[]> {
  const text = await exchange.text()
  const completion = normaliseCompletion(text, { id: '', created: 0, model: '' }, choices)
  return [...completionAsChunks(completion).map(chunk => JSON.stringify(chunk)), '[DONE]'].flatMap(data =>
    normaliser.push({ event: '', data }),
  )
}

/** Throws UpstreamFailure for bodies that cannot be an answer. */
export function rejectUnreadable(exchange: UpstreamExchange): void {
  const encoding = exchange.headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity') {
    throw new UpstreamFailure(
      'malformed',
      `The upstream compressed its answer (${encoding}) although nobody asked for it.`,
    )
  }
  if (contentType(exchange).includes('html')) throw new UpstreamFailure('malformed', 'The upstream answered with HTML.')
}

function contentType(exchange: UpstreamExchange): string {
  return String(exchange.headers['content-type'] ?? '').toLowerCase()
}

/** No content, and yet an answer that another upstream would only repeat: a filter refused, or hidden reasoning took all tokens. */
function isWordlessAnswer(chunks: readonly ChatChunk[]): boolean {
  const reasons = chunks.flatMap(chunk => chunk.choices.map(choice => choice.finish_reason))
  const outputTokens = chunks.at(-1)?.usage?.completion_tokens ?? 0
  return reasons.includes('content_filter') || (reasons.includes('length') && outputTokens > 0)
}

/** The peeked chunks, then the rest. Not a generator of its own: that would cost every later chunk another await. */
function replayed(peeked: readonly ChatChunk[], rest: AsyncGenerator<ChatChunk, undefined>): AsyncIterable<ChatChunk> {
  let position = 0
  return {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        const chunk = peeked[position++]
        return chunk === undefined ? rest.next() : Promise.resolve({ value: chunk, done: false as const })
      },
      return: () => rest.return(undefined),
    }),
  }
}
