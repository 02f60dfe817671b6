import type { IncomingMessage, RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'
import { type LinkedItem, LinkedSet } from '../base/runtime/collections.ts'
import { type Scheduler, systemScheduler } from '../base/runtime/scheduler.ts'
import { hasLastAnswer } from './connection-bound.ts'

/**
 * node:http runs every request in the bytes that it gets, so a slice has a limited number of bytes and of heads of
 * requests.
 */
const SLICE_BYTES = 2_048
const SLICE_HEADS = 4
/** While a chunked body arrives. Requests may follow it in the same slice. */
const CHUNKED_SLICE_BYTES = 8_192
/** Parsing a slice, and starting a request, cost about as much as reading this many bytes of a body. */
const STEP_COST_BYTES = 16_384
/** What one connection may cost before others get their turns: two reads of a socket, or a few requests. */
const GO_COST_BYTES = 131_072
/**
 * What all connections of node:http may cost in one turn of the event loop: 0.5 ms, or 5 ms where memory is slow to
 * come.
 */
const TURN_COST_BYTES = 512 * 1024

/**
 * Bounds what the connections of node:http do in one turn of the event loop, in the order of their bytes. The kernel
 * gives the process one new connection per turn, so long turns starve new connections: 200 pipelined requests on each
 * of 51 connections a second made others wait for seconds. A connection that is not read is paused, and its client
 * waits.
 */
export class InputTurns {
  readonly #inputs = new WeakMap<Socket, NodeInput>()
  readonly #waiting = new LinkedSet<NodeInput>()
  readonly #soon: Scheduler['soon']
  #leftBytes = TURN_COST_BYTES
  #isScheduled = false

  constructor(soon: Scheduler['soon'] = systemScheduler.soon) {
    this.#soon = soon
  }

  /** Notes the requests that node:http finds in the bytes. */
  noteRequests(listener: RequestListener): RequestListener {
    return (request, response) => {
      this.#inputs.get(request.socket)?.noteRequest(request)
      listener(request, response)
    }
  }

  /** Takes over the 'connection' listeners that the server already has. */
  attach(server: Server): Server {
    const listeners = server.listeners('connection') as ((socket: Socket) => void)[]
    server.removeAllListeners('connection').on('connection', (socket: Socket) => {
      for (const listener of listeners) listener.call(server, socket)
      this.#inputs.set(socket, new NodeInput(socket, this))
    })
    return server.on('upgrade', (_request, socket: Socket) => this.#inputs.get(socket)?.release())
  }

  /**
   * Returns the beginning of a request of which node:http has only a part; it reports a fault with the last part alone.
   */
  headStartOf(socket: Socket): Buffer | null {
    return this.#inputs.get(socket)?.headStart ?? null
  }

  /** Reads the bytes of a connection now, or in one of the next turns. */
  offer(input: NodeInput): void {
    if (this.#leftBytes > 0) this.#read(input)
    else this.#wait(input)
  }

  #read(input: NodeInput): void {
    this.#leftBytes -= input.read()
    this.#schedule()
    if (input.isHeld) this.#wait(input)
  }

  #wait(input: NodeInput): void {
    input.hold()
    this.#waiting.add(input)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#soon(this.#beginTurn)
  }

  readonly #beginTurn = (): void => {
    this.#isScheduled = false
    this.#leftBytes = TURN_COST_BYTES
    // Each connection is read once per turn, although it may be added again.
    for (let count = this.#waiting.size; count > 0 && this.#leftBytes > 0; count--) {
      const oldest = this.#waiting.oldest!
      this.#waiting.remove(oldest)
      this.#read(oldest)
    }
  }
}

/** The bytes of one connection that node:http has not got yet. */
class NodeInput implements LinkedItem<NodeInput> {
  older: NodeInput | undefined = undefined
  newer: NodeInput | undefined = undefined
  isListed = false
  readonly #socket: Socket
  readonly #turns: InputTurns
  /** The listener of node:http. */
  readonly #parse: (bytes: Buffer) => void
  #rest: Buffer | null = null
  /** A lower bound of the bytes that the body of the current request still has. They go to node:http at once. */
  #bodyBytesLeft = 0
  /** The current request, if its body is chunked. */
  #chunked: IncomingMessage | null = null
  /** The first slice of a request with an incomplete head. */
  headStart: Buffer | null = null
  #requests = 0
  #isPaused = false

  constructor(socket: Socket, turns: InputTurns) {
    this.#socket = socket
    this.#turns = turns
    this.#parse = socket.listeners('data')[0] as (bytes: Buffer) => void
    // node:http reads from the handle itself, without events, until there is a listener of 'data'.
    socket.on('data', this.#onData).off('data', this.#parse).on('resume', this.#onResume)
  }

  /** Whether bytes wait although node:http would take them. */
  get isHeld(): boolean {
    return this.#rest !== null && !this.#socket.isPaused() && !this.#socket.destroyed
  }

  noteRequest(request: IncomingMessage): void {
    const { 'content-length': length = 0, 'transfer-encoding': coding } = request.headers
    this.#requests++
    this.#bodyBytesLeft = Number(length)
    this.#chunked = coding === undefined ? null : request
  }

  /** Pauses the socket while bytes wait. */
  hold(): void {
    this.#isPaused = true
    this.#socket.pause()
  }

  /** Passes bytes to node:http, up to the limit of one connection. Returns what that cost. */
  read(): number {
    const socket = this.#socket
    if (this.#isPaused && socket.writableEnded && this.#chunked?.complete === false) {
      // `closeUnreadChunks` has paused it too: nothing more is read, and `ConnectionWatch` closes it.
      this.#rest = null
      return 0
    }
    if (this.#isPaused) socket.resume()
    this.#isPaused = false
    let costBytes = 0
    // node:http pauses the socket when the client does not read its answers.
    while (this.#rest !== null && costBytes < GO_COST_BYTES && !socket.isPaused() && !socket.destroyed) {
      if (hasLastAnswer(socket)) {
        this.#rest = null
        break
      }
      const rest = this.#rest
      const requestsBefore = this.#requests
      if (this.#chunked?.complete) this.#chunked = null
      const knownBytes = this.#chunked === null ? this.#bodyBytesLeft : CHUNKED_SLICE_BYTES
      const isBody = knownBytes > SLICE_BYTES
      const slice = rest.subarray(0, isBody ? knownBytes : sliceLength(rest))
      this.#rest = slice.length < rest.length ? rest.subarray(slice.length) : null
      if (knownBytes === 0) this.headStart ??= slice
      this.#parse(slice)
      if (this.#requests > requestsBefore) this.headStart = null
      this.#bodyBytesLeft = Math.max(0, this.#bodyBytesLeft - slice.length)
      const started = this.#requests - requestsBefore
      costBytes += (isBody ? slice.length : STEP_COST_BYTES) + started * STEP_COST_BYTES
    }
    return costBytes
  }

  /** Leaves the connection to another protocol, with the bytes behind the request that asked for it. */
  release(): void {
    const rest = this.#rest
    this.#rest = null
    this.#socket.off('data', this.#onData).off('resume', this.#onResume)
    if (rest !== null) this.#socket.unshift(rest)
  }

  readonly #onData = (bytes: Buffer): void => {
    this.#rest = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes])
    if (this.isListed) this.hold()
    else this.#turns.offer(this)
  }

  /** node:http goes on after the client has read. */
  readonly #onResume = (): void => {
    if (this.isHeld && !this.isListed) this.#turns.offer(this)
  }
}

/** Ends behind one of the first heads. A body that has the same bytes is cut there, which does not matter. */
function sliceLength(rest: Buffer): number {
  const start = rest.subarray(0, SLICE_BYTES)
  let length = 0
  for (let heads = 0; heads < SLICE_HEADS; heads++) {
    const end = start.indexOf(END_OF_HEAD, length)
    if (end < 0) return start.length
    length = end + END_OF_HEAD.length
  }
  return length
}

const END_OF_HEAD = '\r\n\r\n'
