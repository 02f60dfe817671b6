import { createServer, type ServerResponse } from 'node:http'
import { reportPort } from './process.ts'
import { monotonicMicros, stampText } from './stamp.ts'

/**
 * The model server of the benchmark: OpenAI's dialect at the lowest price we know.
 * Whole answers are one prebuilt buffer of 300 bytes. Streams are 100 content chunks, one each 20 ms, or for the user "slow" 60 chunks, one
 * each 50 ms; the content of a chunk is the monotonic time it was written at (see stamp.ts), so that whoever receives it on the same machine
 * knows how long it was under way.
 */
const server = createServer((request, response) => {
  const parts: Buffer[] = []
  request.on('data', (part: Buffer) => parts.push(part))
  request.on('end', () => {
    const body = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
    // Both spellings come from JSON.stringify: with and without spaces would be two servers' dialects, not one's.
    if (!body.includes('"stream":true')) {
      response.writeHead(200, wholeAnswerHeaders)
      response.end(wholeAnswer)
      return
    }
    const wheel = body.includes('"user":"slow"') ? slowWheel : fastWheel
    wheel.start(response, body.includes('"include_usage":true'))
  })
})
server.keepAliveTimeout = 120_000
server.requestTimeout = 0

const answerBytes = 300

const usage = { prompt_tokens: 16, completion_tokens: 20, total_tokens: 36 }
const wholeAnswer = buildWholeAnswer()
const wholeAnswerHeaders = { 'content-type': 'application/json', 'content-length': String(wholeAnswer.length) }

const roleChunk = sse({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] })
const finishChunk = sse({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
const usageChunk = (chunks: number) =>
  sse({ choices: [], usage: { prompt_tokens: 16, completion_tokens: chunks, total_tokens: 16 + chunks } })
const done = 'data: [DONE]\n\n'
const [beforeStamp, afterStamp] = sse({
  choices: [{ index: 0, delta: { content: 'STAMP' }, finish_reason: null }],
}).split('STAMP') as [string, string]

server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => reportPort(server))

type Stream = { response: ServerResponse; chunksLeft: number; includeUsage: boolean }

/**
 * One timer for all streams of a pace: a wheel of 1 ms slots. A stream stays in the slot it was born in, so each of its chunks is due exactly
 * one turn after the one before, and 500 streams cost 1,000 timer calls a second, not 25,000.
 */
class Wheel {
  readonly #chunksPerStream: number
  readonly #slots: Set<Stream>[]
  #turnedToMs = 0
  #openStreams = 0
  #ticking: NodeJS.Timeout | undefined

  constructor(pace: { chunksPerStream: number; chunkSpacingMs: number }) {
    this.#chunksPerStream = pace.chunksPerStream
    this.#slots = Array.from({ length: pace.chunkSpacingMs }, () => new Set())
  }

  start(response: ServerResponse, includeUsage: boolean): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    response.write(roleChunk, 'latin1')
    if (this.#ticking === undefined) {
      this.#turnedToMs = nowMs()
      this.#ticking = setInterval(() => this.#turn(), 1)
    }
    const slot = this.#slotAt(this.#turnedToMs)
    const stream: Stream = { response, chunksLeft: this.#chunksPerStream, includeUsage }
    slot.add(stream)
    this.#openStreams++
    response.on('close', () => {
      slot.delete(stream)
      if (--this.#openStreams > 0) return
      clearInterval(this.#ticking)
      this.#ticking = undefined
    })
  }

  #turn(): void {
    const untilMs = nowMs()
    // After a stall longer than a turn, each stream gets one late chunk and goes on from there: no bursts.
    this.#turnedToMs = Math.max(this.#turnedToMs, untilMs - this.#slots.length)
    while (this.#turnedToMs < untilMs) {
      this.#turnedToMs++
      const slot = this.#slotAt(this.#turnedToMs)
      for (const stream of slot) this.#writeChunk(stream, slot)
    }
  }

  #writeChunk(stream: Stream, slot: Set<Stream>): void {
    stream.response.write(`${beforeStamp}${stampText(monotonicMicros())}${afterStamp}`, 'latin1')
    if (--stream.chunksLeft > 0) return
    slot.delete(stream)
    const usage = stream.includeUsage ? usageChunk(this.#chunksPerStream) : ''
    stream.response.end(finishChunk + usage + done, 'latin1')
  }

  #slotAt(ms: number): Set<Stream> {
    return this.#slots[ms % this.#slots.length]!
  }
}

const fastWheel = new Wheel({ chunksPerStream: 100, chunkSpacingMs: 20 })
const slowWheel = new Wheel({ chunksPerStream: 60, chunkSpacingMs: 50 })

function nowMs(): number {
  return Math.floor(performance.now())
}

function sse(rest: object): string {
  const chunk = {
    id: 'chatcmpl-bench',
    object: 'chat.completion.chunk',
    created: 1_770_000_000,
    model: 'bench',
    ...rest,
  }
  return `data: ${JSON.stringify(chunk)}\n\n`
}

function buildWholeAnswer(): Buffer {
  const withContent = (content: string) =>
    JSON.stringify({
      id: 'chatcmpl-bench',
      object: 'chat.completion',
      created: 1_770_000_000,
      model: 'bench',
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
      usage,
    })
  const text = 'A switchyard sorts each car onto the track that takes it where it wants to go. '
  return Buffer.from(withContent(text.repeat(4).slice(0, answerBytes - withContent('').length)))
}
