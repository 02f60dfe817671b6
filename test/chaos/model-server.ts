import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { bedrockBody, streamFrames } from '../harness/scripted-bedrock.ts'
import { scriptedVector } from '../harness/scripted-embeddings.ts'
import {
  completion,
  type RecordedRequest,
  type ScriptedUpstream,
  startScriptedUpstream,
  streamEvents,
  usageOf,
} from '../harness/scripted-upstream.ts'
import { type NativeDialect, type ReportedTokens, vendorBody, vendorEvents } from '../harness/scripted-vendors.ts'

/** The instructions of a request to the model server, sent in its text. */
export interface Task {
  /** Number of the request among those of its customer. */
  readonly tag: number
  /** The usage to report. */
  readonly tokens: ReportedTokens
  readonly customerId: string
  readonly words: number
  /** Delay before each event of a stream, or before a non-streamed answer. */
  readonly gapMs: number
}

export interface ModelServer {
  readonly baseUrl: string
  /** The tags of a customer's requests that arrived here. A retried request counts once. */
  tagsOf(customerId: string): ReadonlySet<number>
  close(): Promise<void>
}

/** Starts a model server that speaks every dialect and follows the instructions in each request. */
export async function startModelServer(): Promise<ModelServer> {
  const upstream: ScriptedUpstream = await startScriptedUpstream({ models: [] })
  const tags = new Map<string, Set<number>>()
  upstream.always(async (request, response) => {
    const task = taskOf(request.rawBody)
    const known = tags.get(task.customerId) ?? new Set()
    tags.set(task.customerId, known.add(task.tag))
    await writeAnswer(answerTo(request, task), task, response)
  })
  return {
    baseUrl: upstream.baseUrl,
    tagsOf: customerId => tags.get(customerId) ?? new Set(),
    close: () => upstream.close(),
  }
}

/** Every text is at least this long, so that the reported input is below the bound that the gateway computes. */
const TEXT_LENGTH_MIN = 200

export function textOf(task: Task): string {
  const length = Math.max(TEXT_LENGTH_MIN, task.tokens.input)
  return `task=${Buffer.from(JSON.stringify(task)).toString('base64url')}. `.padEnd(
    length,
    'Say something about shunting. ',
  )
}

/** The word of an answer with this index. No word is the start of another one. */
export function wordOf(index: number): string {
  return `word${index}.`
}

function taskOf(rawBody: string): Task {
  const encoded = /task=([\w-]+)/.exec(rawBody)?.[1]
  if (encoded === undefined) throw new Error(`A request without a task: ${rawBody.slice(0, 500)}`)
  return JSON.parse(Buffer.from(encoded, 'base64url').toString())
}

/** A whole body, or the pieces of a stream. */
type Answer =
  | { readonly body: object }
  | { readonly contentType: string; readonly pieces: readonly (string | Buffer)[] }

function answerTo({ path, body }: RecordedRequest, { tokens, words }: Task): Answer {
  const pieces = Array.from({ length: words }, (_, index) => `${wordOf(index)} `)
  const text = pieces.join('')
  if (path.endsWith('/embeddings')) {
    const data = [{ object: 'embedding', index: 0, embedding: scriptedVector(0) }]
    return { body: { object: 'list', data, model: 'theirs', usage: inputUsage(tokens) } }
  }
  if (path.endsWith('/rerank'))
    return { body: { model: 'theirs', results: [{ index: 0, relevance_score: 0.5 }], usage: inputUsage(tokens) } }
  if (path.endsWith('/converse')) return { body: bedrockBody({ text, tokens }) }
  if (path.endsWith('/converse-stream'))
    return { contentType: 'application/vnd.amazon.eventstream', pieces: streamFrames({ text, tokens }) }
  const dialect = dialectOf(path)
  const isStream = body.stream === true || path.includes(':streamGenerateContent')
  if (dialect !== undefined) {
    const answer = { text, tokens }
    return isStream ? events(vendorEvents(dialect, answer)) : { body: vendorBody(dialect, answer) }
  }
  const usage = usageOf(tokens.input, tokens.output)
  if (path.endsWith('/chat/completions'))
    return isStream ? events(streamEvents({ pieces, usage }).map(sseEvent)) : { body: completion({ pieces, usage }) }
  const part = (word: string, finish_reason: string | null) => ({ choices: [{ index: 0, text: word, finish_reason }] })
  if (!isStream) return { body: { ...part(text, 'stop'), usage } }
  return events(
    [...pieces.map(word => part(word, null)), part('', 'stop'), { choices: [], usage }, '[DONE]'].map(sseEvent),
  )
}

function dialectOf(path: string): NativeDialect | undefined {
  if (path.endsWith('/responses')) return 'responses'
  if (path.endsWith('/messages')) return 'messages'
  return path.includes('enerateContent') ? 'gemini' : undefined
}

function inputUsage({ input }: ReportedTokens): object {
  return { prompt_tokens: input, total_tokens: input }
}

function events(pieces: readonly string[]): Answer {
  return { contentType: 'text/event-stream', pieces }
}

function sseEvent(event: unknown): string {
  return `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`
}

async function writeAnswer(answer: Answer, { gapMs }: Task, response: ServerResponse): Promise<void> {
  if ('body' in answer) {
    if (gapMs > 0) await delay(gapMs)
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer.body))
    return
  }
  response.writeHead(200, { 'content-type': answer.contentType })
  response.flushHeaders()
  for (const piece of answer.pieces) {
    if (response.destroyed) return
    if (gapMs > 0) await delay(gapMs)
    response.write(piece)
  }
  response.end()
}
