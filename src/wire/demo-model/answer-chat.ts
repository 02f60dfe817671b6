import type { ServerResponse } from 'node:http'
import type { ChatChunk } from '../../base/domain/completion.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import {
  type AnswerHead,
  asTextBody,
  chunkBody,
  completionBody,
  firstDelta,
  type LogprobRow,
  lastDelta,
  logprobRow,
  pieceDelta,
  usageBody,
} from './chat-bodies.ts'
import type { ChatRequest } from './chat-request.ts'
import type { DemoLanguage, Piece } from './demo-language.ts'
import { pace, type Speed } from './pace.ts'
import type { Reply } from './plan-reply.ts'

/** A planned answer, with everything needed to send it. */
export interface Answer {
  readonly head: AnswerHead
  readonly request: ChatRequest
  /** The objects of text completions are sent instead of those of chat. */
  readonly isText?: boolean
  readonly promptTokens: number
  readonly replies: readonly Reply[]
  readonly language: DemoLanguage
  readonly clock: Clock
  readonly speed: Speed
}

/**
 * Streams the answer as OpenAI chunks, one token each. Settles when the last chunk is written or the client
 * disconnects.
 */
export function answerInChunks(answer: Answer, response: ServerResponse): Promise<void> {
  const { head, replies, request } = answer
  const show = answer.isText ? asTextBody : (body: ChatChunk) => body
  const pendingUsage = request.includeUsage ? null : undefined
  const chunk = (choice: Parameters<typeof chunkBody>[1][number]) =>
    `data: ${JSON.stringify(show(chunkBody(head, [choice], pendingUsage)))}\n\n`
  let open = [...replies]

  return untilDone(answer, response, due => {
    let text = ''
    if (!response.headersSent) {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
      text += replies.map(reply => chunk(firstDelta(reply))).join('')
    }
    open = open.filter(reply => {
      for (let count = 0; count < due; count += 1) {
        const { value, done } = reply.pieces.next()
        if (done) {
          text += chunk(lastDelta(reply, value))
          return false
        }
        if (value.text !== '') text += chunk(pieceDelta(reply, value, pieceLogprobs(answer, reply, value)))
      }
      return true
    })
    if (open.length > 0) return writeAll(response, text)
    if (request.includeUsage) {
      text += `data: ${JSON.stringify(show(chunkBody(head, [], usageBody(answer.promptTokens, replies))))}\n\n`
    }
    response.end(`${text}data: [DONE]\n\n`)
    return false
  })
}

/** Sends the complete answer in one body, after the time it takes to generate it. */
export function answerWhole(answer: Answer, response: ServerResponse): Promise<void> {
  const drafts = answer.replies.map(reply => ({ reply, text: '', logprobs: [] as LogprobRow[] }))
  const finished: Parameters<typeof completionBody>[1][number][] = []
  let open = drafts

  return untilDone(answer, response, due => {
    open = open.filter(draft => {
      for (let count = 0; count < due; count += 1) {
        const { value, done } = draft.reply.pieces.next()
        if (done) {
          const logprobs = answer.request.topLogprobs === null ? null : draft.logprobs
          finished.push({ reply: draft.reply, text: draft.text, finish: value, logprobs })
          return false
        }
        draft.text += value.text
        const row = pieceLogprobs(answer, draft.reply, value)
        if (row) draft.logprobs.push(row)
      }
      return true
    })
    if (open.length > 0) return true
    finished.sort((a, b) => a.reply.index - b.reply.index)
    const body = completionBody(answer.head, finished, usageBody(answer.promptTokens, answer.replies))
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify(answer.isText ? asTextBody(body) : body))
    return false
  })
}

/**
 * Calls `step` at the configured speed until it returns false. Stops generating as soon as the client
 * disconnects.
 */
function untilDone(
  answer: Answer,
  response: ServerResponse,
  step: (due: number) => boolean | Promise<boolean>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (response.destroyed) return resolve()
    const stop = pace(answer.clock, answer.speed, step, reject)
    // Listen on the response: the 'close' event of the request fires as soon as its body is read.
    response.once('close', () => {
      stop()
      for (const reply of answer.replies) reply.pieces.return('stop')
      resolve()
    })
  })
}

/** Writes `text` and waits while the socket is full, so that a slow reader does not fill the server's memory. */
async function writeAll(response: ServerResponse, text: string): Promise<boolean> {
  if (text === '' || response.write(text)) return true
  await new Promise<void>(resolve => {
    // Remove both listeners: the ones that did not fire would accumulate on a slow connection.
    const resume = () => {
      response.off('drain', resume).off('close', resume)
      resolve()
    }
    response.on('drain', resume).on('close', resume)
  })
  return !response.destroyed
}

function pieceLogprobs(answer: Answer, reply: Reply, piece: Piece): LogprobRow | null {
  const { topLogprobs } = answer.request
  return topLogprobs === null || reply.toolCall !== null ? null : logprobRow(answer.language, piece, topLogprobs)
}
