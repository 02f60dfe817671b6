import { createServer, type Socket } from 'node:net'
import { reportPort } from './process.ts'
import { monotonicMicros, stampText } from './stamp.ts'
import { allAnswers, answersAt, type UpstreamAnswers } from './upstream-answers.ts'

/**
 * The model server of the benchmark. It works without node:http, with as little CPU time as possible (client.ts says why). The path of a
 * request chooses the dialect of the answer. A non-streamed answer is a constant text. A stream has 100 content chunks, one every 20 ms, or
 * for the user "slow" 60 chunks, one every 50 ms. The content of a chunk is the monotonic time of writing (see stamp.ts), so that a receiver
 * on the same machine can compute its delay.
 */
const server = createServer({ noDelay: true }, socket => {
  /** The incomplete request received so far. */
  let rest: Buffer | null = null
  let stream: Stream | null = null
  socket.on('data', (bytes: Buffer) => {
    const all: Buffer = rest === null ? bytes : Buffer.concat([rest, bytes])
    const headEnd = all.indexOf('\r\n\r\n')
    const head = headEnd === -1 ? '' : all.toString('latin1', 0, headEnd)
    const bodyEnd = headEnd === -1 ? Number.POSITIVE_INFINITY : headEnd + 4 + contentLength(head)
    rest = all.length < bodyEnd ? all : null
    if (rest === null) stream = answer(socket, head, all.subarray(headEnd + 4))
  })
  // Stop the stream of a client that disconnects early.
  socket.on('close', () => stream?.leave())
  // 'close' follows a reset.
  socket.on('error', () => {})
})

/** All subjects send this header with a request for an answer. Without it, the benchmark ends. */
function contentLength(head: string): number {
  if (head.startsWith('GET ')) return 0
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length === undefined) throw new Error(`the request has no content-length: ${head}`)
  return Number(length)
}

/** Answers a request; returns the stream if it asks for one. */
function answer(socket: Socket, head: string, body: Buffer): Stream | null {
  // A gateway asks for the context of the model.
  if (body.length === 0) {
    socket.write(NOT_FOUND, 'latin1')
    return null
  }
  const answers = answersAt(head)
  // The bodies come from JSON.stringify, so they contain no spaces. Gemini has the kind of answer in the path.
  if (!body.includes('"stream":true') && !head.includes(':streamGenerateContent')) {
    socket.write(wholeAnswers.get(answers)!, 'latin1')
    return null
  }
  const wheel = body.includes('"user":"slow"') ? slowWheel : fastWheel
  return wheel.start(socket, answers, body.includes('"include_usage":true'))
}

const NOT_FOUND = 'HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n'

const streamHead = responseHead(
  'content-type: text/event-stream',
  'cache-control: no-cache',
  'transfer-encoding: chunked',
)
const wholeAnswers = new Map(
  allAnswers.map(answers => {
    const { whole } = answers
    return [answers, responseHead('content-type: application/json', `content-length: ${whole.length}`) + whole]
  }),
)

server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => reportPort(server))

type Stream = {
  socket: Socket
  answers: UpstreamAnswers
  chunksLeft: number
  includeUsage: boolean
  /** Removes the stream from the wheel. Calling it again has no effect. */
  leave: () => void
}

/**
 * One timer for all streams of the same pace: a wheel with slots of 1 ms. A stream stays in its first slot, so each chunk is due exactly one
 * turn after the previous one. 500 streams need 1,000 timer calls per second instead of 25,000.
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

  start(socket: Socket, answers: UpstreamAnswers, includeUsage: boolean): Stream {
    socket.write(streamHead + frame(answers.start), 'latin1')
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
    const stream: Stream = { socket, answers, chunksLeft: this.#chunksPerStream, includeUsage, leave }
    slot.add(stream)
    this.#openStreams++
    return stream
  }

  #turn(): void {
    const untilMs = nowMs()
    // After a stall longer than one turn, each stream sends one late chunk and continues from there, without a burst.
    this.#turnedToMs = Math.max(this.#turnedToMs, untilMs - this.#slots.length)
    while (this.#turnedToMs < untilMs) {
      this.#turnedToMs++
      const slot = this.#slotAt(this.#turnedToMs)
      for (const stream of slot) this.#writeChunk(stream)
    }
  }

  #writeChunk(stream: Stream): void {
    const { socket, answers } = stream
    socket.write(frame(answers.text(stampText(monotonicMicros()), this.#chunksPerStream - stream.chunksLeft)), 'latin1')
    if (--stream.chunksLeft > 0) return
    stream.leave()
    socket.write(`${frame(answers.end(this.#chunksPerStream, stream.includeUsage))}0\r\n\r\n`, 'latin1')
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

/** One chunk of a chunked body; none for an empty text, which would end the body. */
function frame(text: string): string {
  return text === '' ? '' : `${text.length.toString(16)}\r\n${text}\r\n`
}

function responseHead(...fields: string[]): string {
  const usual = [`date: ${new Date().toUTCString()}`, 'connection: keep-alive', 'keep-alive: timeout=120']
  return ['HTTP/1.1 200 OK', ...fields, ...usual, '', ''].join('\r\n')
}
