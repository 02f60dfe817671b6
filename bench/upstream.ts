import { createServer, type Socket } from 'node:net'
import { reportPort } from './process.ts'
import { monotonicMicros, stampText } from './stamp.ts'

/**
 * The model server of the benchmark: OpenAI's dialect at the lowest price we know, which is without node:http (see client.ts for why).
 * Whole answers are one prebuilt text with a body of 300 bytes. Streams are 100 content chunks, one each 20 ms, or for the user "slow" 60 chunks, one
 * each 50 ms; the content of a chunk is the monotonic time it was written at (see stamp.ts), so that whoever receives it on the same machine
 * knows how long it was under way.
 */
const server = createServer({ noDelay: true }, socket => {
  /** Of a request that came in pieces. */
  let rest: Buffer | null = null
  let stream: Stream | null = null
  socket.on('data', (bytes: Buffer) => {
    const all: Buffer = rest === null ? bytes : Buffer.concat([rest, bytes])
    const headEnd = all.indexOf('\r\n\r\n')
    const bodyEnd =
      headEnd === -1 ? Number.POSITIVE_INFINITY : headEnd + 4 + contentLength(all.toString('latin1', 0, headEnd))
    rest = all.length < bodyEnd ? all : null
    if (rest === null) stream = answer(socket, all.subarray(headEnd + 4))
  })
  // A client that leaves early stops its stream; one that has ended has done so itself.
  socket.on('close', () => stream?.leave())
  // A reset is such a client too: 'close' follows.
  socket.on('error', () => {})
})

/** Every subject sends it. One that did not would end the benchmark: its figures would be of something else. */
function contentLength(head: string): number {
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length === undefined) throw new Error(`a request of unknown length: ${head}`)
  return Number(length)
}

/** Answers a whole request; returns the stream, if it is one. */
function answer(socket: Socket, body: Buffer): Stream | null {
  // Both spellings come from JSON.stringify: with and without spaces would be two servers' dialects, not one's.
  if (!body.includes('"stream":true')) {
    socket.write(wholeAnswer, 'latin1')
    return null
  }
  const wheel = body.includes('"user":"slow"') ? slowWheel : fastWheel
  return wheel.start(socket, body.includes('"include_usage":true'))
}

const answerBytes = 300

const usage = { prompt_tokens: 16, completion_tokens: 20, total_tokens: 36 }
const wholeAnswer = buildWholeAnswer()

const streamHead = responseHead(
  'content-type: text/event-stream',
  'cache-control: no-cache',
  'transfer-encoding: chunked',
)
const roleChunk = sse({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] })
const finishChunk = sse({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
const usageChunk = (chunks: number) =>
  sse({ choices: [], usage: { prompt_tokens: 16, completion_tokens: chunks, total_tokens: 16 + chunks } })
const streamEnd = `${frame('data: [DONE]\n\n')}0\r\n\r\n`
// Stamps are of one length, and so is the frame around them.
const stampPlace = '@'.repeat(stampText(0).length)
const [beforeStamp, afterStamp] = sse({
  choices: [{ index: 0, delta: { content: stampPlace }, finish_reason: null }],
}).split(stampPlace) as [string, string]

server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => reportPort(server))

type Stream = {
  socket: Socket
  chunksLeft: number
  includeUsage: boolean
  /** Takes it off the wheel. Calling it again does nothing. */
  leave: () => void
}

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

  start(socket: Socket, includeUsage: boolean): Stream {
    socket.write(streamHead + roleChunk, 'latin1')
    if (this.#ticking === undefined) {
      this.#turnedToMs = nowMs()
      this.#ticking = setInterval(() => this.#turn(), 1)
    }
    const slot = this.#slotAt(this.#turnedToMs)
    const leave = () => {
      if (!slot.delete(stream)) return
      this.#openStreams--
      if (this.#openStreams > 0) return
      clearInterval(this.#ticking)
      this.#ticking = undefined
    }
    const stream: Stream = { socket, chunksLeft: this.#chunksPerStream, includeUsage, leave }
    slot.add(stream)
    this.#openStreams++
    return stream
  }

  #turn(): void {
    const untilMs = nowMs()
    // After a stall longer than a turn, each stream gets one late chunk and goes on from there: no bursts.
    this.#turnedToMs = Math.max(this.#turnedToMs, untilMs - this.#slots.length)
    while (this.#turnedToMs < untilMs) {
      this.#turnedToMs++
      const slot = this.#slotAt(this.#turnedToMs)
      for (const stream of slot) this.#writeChunk(stream)
    }
  }

  #writeChunk(stream: Stream): void {
    stream.socket.write(`${beforeStamp}${stampText(monotonicMicros())}${afterStamp}`, 'latin1')
    if (--stream.chunksLeft > 0) return
    stream.leave()
    const usage = stream.includeUsage ? usageChunk(this.#chunksPerStream) : ''
    stream.socket.write(`${finishChunk}${usage}${streamEnd}`, 'latin1')
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

/** One event of a stream, in a frame. */
function sse(rest: object): string {
  const chunk = {
    id: 'chatcmpl-bench',
    object: 'chat.completion.chunk',
    created: 1_770_000_000,
    model: 'bench',
    ...rest,
  }
  return frame(`data: ${JSON.stringify(chunk)}\n\n`)
}

/** A chunk of a body in chunks. */
function frame(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`
}

function responseHead(...fields: string[]): string {
  const usual = [`date: ${new Date().toUTCString()}`, 'connection: keep-alive', 'keep-alive: timeout=120']
  return ['HTTP/1.1 200 OK', ...fields, ...usual, '', ''].join('\r\n')
}

function buildWholeAnswer(): string {
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
  const body = withContent(text.repeat(4).slice(0, answerBytes - withContent('').length))
  return responseHead('content-type: application/json', `content-length: ${body.length}`) + body
}
