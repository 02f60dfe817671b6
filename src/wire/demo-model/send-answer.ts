import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { DEMO_MODEL } from '../../base/domain/offer.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { DemoLanguage, Piece } from './demo-language.ts'
import type { ChatRequest } from './demo-request.ts'
import type { Reply } from './plan-replies.ts'

export interface Speed {
  /** Tokens per second for each choice. */
  readonly tokensPerSecond: number
  /** Milliseconds before the first token. */
  readonly firstTokenMs: number
}

/** A planned answer, with everything needed to send it. */
export interface Answer {
  readonly request: Pick<ChatRequest, 'stream' | 'includeUsage' | 'topLogprobs'>
  /** The objects of text completions are sent instead of those of chat. */
  readonly isText: boolean
  readonly promptTokens: number
  readonly replies: readonly Reply[]
  readonly language: Pick<DemoLanguage, 'textOf'>
  readonly clock: Clock
  readonly speed: Speed
}

/**
 * Sends the answer at the configured speed: as chunks of one token each, or whole after the time it takes to generate
 * it. Rejects with AbortError when the client disconnects.
 */
export async function sendAnswer(answer: Answer, response: ServerResponse): Promise<void> {
  const { replies, request, isText, promptTokens, clock } = answer
  const object = isText ? 'text_completion' : request.stream ? 'chat.completion.chunk' : 'chat.completion'
  const id = `${isText ? 'cmpl' : 'chatcmpl'}-demo-${randomUUID()}`
  const head = { id, object, created: Math.floor(clock.epochMs() / 1_000), model: DEMO_MODEL }
  const completionTokens = replies.reduce((total, reply) => total + reply.tokens, 0)
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  }
  const gone = new AbortController()
  // Listen on the response: the 'close' event of the request fires as soon as its body is read.
  response.once('close', () => gone.abort())
  if (response.destroyed) return
  const { tokensPerSecond, firstTokenMs } = answer.speed
  const startMs = clock.monotonicMs() + firstTokenMs
  const waitForToken = (index: number) =>
    delay(Math.max(0, startMs + (index * 1_000) / tokensPerSecond - clock.monotonicMs()), undefined, gone)
  const tokensMax = Math.max(...replies.map(reply => reply.pieces.length))

  if (!request.stream) {
    await waitForToken(tokensMax)
    const choices = replies.map((reply, index) => choiceOf(answer, reply, index, 'whole', reply.pieces))
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ...head, choices, usage }))
    return
  }

  const chunk = (...choices: object[]) => `data: ${JSON.stringify({ ...head, choices })}\n\n`
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  let text = replies.map((reply, index) => chunk(choiceOf(answer, reply, index, 'first'))).join('')
  for (let sent = 0; sent <= tokensMax; text = '') {
    await waitForToken(sent)
    // After a late timer this catches up, so the speed holds under load. A timer may also fire slightly early.
    const due = Math.max(sent, Math.floor(((clock.monotonicMs() - startMs) * tokensPerSecond) / 1_000))
    for (; sent <= Math.min(due, tokensMax); sent++) {
      for (const [index, reply] of replies.entries()) {
        const piece = reply.pieces[sent]
        if (piece && piece.text !== '') text += chunk(choiceOf(answer, reply, index, 'next', [piece]))
        if (sent === reply.pieces.length) text += chunk(choiceOf(answer, reply, index, 'last'))
      }
    }
    // A slow reader must not fill the memory of the server.
    if (text !== '' && !response.write(text)) await once(response, 'drain', gone)
  }
  if (request.includeUsage) response.write(`data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`)
  response.end('data: [DONE]\n\n')
}

/** Returns a choice of a whole answer, or of the first, a following or the last chunk of a stream. */
function choiceOf(
  { isText, request, language }: Answer,
  { call, finish }: Reply,
  index: number,
  part: 'whole' | 'first' | 'next' | 'last',
  pieces: readonly Piece[] = [],
): object {
  const text = pieces.map(piece => piece.text).join('')
  const finish_reason = part === 'whole' || part === 'last' ? finish : null
  if (isText) return { index, text, logprobs: null, finish_reason }
  const isBegin = part !== 'next'
  const head = isBegin && { role: 'assistant', content: null }
  const toolCall = call && {
    ...(part !== 'whole' && { index: 0 }),
    ...(isBegin && { id: call.id, type: 'function' }),
    function: { ...(isBegin && { name: call.name }), arguments: text },
  }
  const content = toolCall ? { ...head, tool_calls: [toolCall] } : { ...head, content: text }
  const { topLogprobs } = request
  const logprobs =
    topLogprobs === null || call ? null : { content: pieces.map(piece => logprobRow(language, piece, topLogprobs)) }
  return part === 'whole'
    ? { index, message: { ...content, refusal: null }, logprobs, finish_reason }
    : { index, delta: part === 'last' ? {} : content, logprobs, finish_reason }
}

/** @param top how many of the most likely tokens to list next to the chosen one */
function logprobRow(language: Answer['language'], piece: Piece, top: number): object {
  const likeliest = piece.candidates.map(each => ({ text: language.textOf(each.token), probability: each.probability }))
  const listed = (likeliest.length === 0 ? [piece] : likeliest).slice(0, top)
  return { ...logprob(piece), top_logprobs: listed.map(logprob) }
}

function logprob({ text, probability }: Pick<Piece, 'text' | 'probability'>): object {
  return { token: text, logprob: Math.log(probability), bytes: [...Buffer.from(text)] }
}
