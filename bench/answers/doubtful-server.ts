import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { seededRandom } from '../../src/wire/demo-model/seeded-random.ts'
import { answerText } from './answer-text.ts'

/** What the server does with one request. */
const behaviours = [
  'answers once',
  'answers once in pieces',
  'answers twice at once',
  'answers twice, the second time 1 to 250 ms later',
  'answers twice, the second time 250 ms to 1 s later',
  'answers three to eight times',
  'answers twice in pieces, cut anywhere',
  'answers half and closes',
  'answers half, then once more',
  'answers more bytes than it announces',
  'answers 300 to 800 ms late',
  'answers twice and closes',
] as const
export type DoubtfulBehaviour = (typeof behaviours)[number]

export interface DoubtfulServer {
  /** Paths may begin with any folder: `/<hoster>/v1/chat/completions`. Each folder is a hoster. */
  readonly origin: string
  readonly counts: ReadonlyMap<DoubtfulBehaviour, number>
  /** `kept`: on a connection that had carried another request. */
  readonly requests: { readonly all: number; readonly kept: number }
  close(): Promise<void>
}

export interface DoubtfulServerOptions {
  readonly seed: number
  /** Each hoster begins with up to this many requests that it answers once. The number is random. */
  readonly calmRequestsMax: number
}

/** The habit of a third of the hosters: a second answer that can meet the next request on its connection. */
const LATE: DoubtfulBehaviour = 'answers twice, the second time 250 ms to 1 s later'
/** How often a hoster follows its habit after the calm requests. */
const HABIT_SHARE = 0.3
/** Longer than an answer needs, so that late bytes of one request arrive while another one waits. */
const THINKING_MS_MAX = 150

/** Starts a model server that many hosters share. It answers too often, late, early, twice and in pieces, on kept connections. */
export async function startDoubtfulServer(options: DoubtfulServerOptions): Promise<DoubtfulServer> {
  const random = seededRandom(options.seed)
  const between = (least: number, most: number) => least + Math.floor(random() * (most - least + 1))
  const counts = new Map<DoubtfulBehaviour, number>()
  const count = (behaviour: DoubtfulBehaviour) => counts.set(behaviour, (counts.get(behaviour) ?? 0) + 1)
  const hosters = new Map<string, { calmRequests: number; readonly habit: DoubtfulBehaviour }>()
  const sockets = new Set<Socket>()
  const requests = { all: 0, kept: 0 }

  const server = createServer({ noDelay: true }, socket => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    let isKept = false
    readRequests(socket, request => {
      requests.all++
      if (isKept) requests.kept++
      isKept = true
      void play(socket, answerBytes(request, random), behaviourFor(request.hoster))
    })
  })
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 })
  await once(server, 'listening')

  function behaviourFor(name: string): DoubtfulBehaviour {
    const hoster = hosters.get(name) ?? {
      calmRequests: between(0, options.calmRequestsMax),
      habit: random() < 1 / 3 ? LATE : behaviours[between(1, behaviours.length - 1)]!,
    }
    hosters.set(name, hoster)
    const behaviour = hoster.calmRequests-- <= 0 && random() < HABIT_SHARE ? hoster.habit : behaviours[0]
    count(behaviour)
    return behaviour
  }

  async function play(socket: Socket, answer: Buffer, behaviour: DoubtfulBehaviour): Promise<void> {
    await delay(between(0, THINKING_MS_MAX))
    const half = answer.subarray(0, answer.length / 2)
    const write = async (...parts: (Buffer | number)[]) => {
      for (const part of parts) {
        if (typeof part === 'number') await delay(part)
        else if (!socket.destroyed) socket.write(part)
      }
    }
    const pieces = (bytes: Buffer) => {
      const ends = Array.from({ length: between(1, 5) }, () => between(0, bytes.length)).sort((a, b) => a - b)
      return [...ends, bytes.length].flatMap((end, at) => [bytes.subarray(ends[at - 1] ?? 0, end), between(0, 20)])
    }
    switch (behaviour) {
      case 'answers once in pieces':
        return await write(...pieces(answer))
      case 'answers twice at once':
        return await write(Buffer.concat([answer, answer]))
      case 'answers twice, the second time 1 to 250 ms later':
        return await write(answer, between(1, 250), answer)
      case 'answers twice, the second time 250 ms to 1 s later':
        return await write(answer, between(250, 1_000), answer)
      case 'answers three to eight times':
        return await write(...Array.from({ length: between(3, 8) }, () => [answer, between(0, 120)]).flat())
      case 'answers twice in pieces, cut anywhere':
        return await write(...pieces(Buffer.concat([answer, answer])))
      case 'answers half and closes':
        await write(half)
        socket.end()
        return
      case 'answers half, then once more':
        return await write(half, between(0, 20), answer)
      case 'answers more bytes than it announces':
        return await write(Buffer.concat([answer, half]))
      case 'answers 300 to 800 ms late':
        return await write(between(300, 800), answer)
      case 'answers twice and closes':
        await write(answer, between(0, 20), answer)
        socket.end()
        return
      default:
        return await write(answer)
    }
  }

  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    requests,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

interface SeenRequest {
  readonly hoster: string
  readonly text: string
  readonly stream: boolean
}

/** Calls `onRequest` with each complete request, in the order of arrival. */
function readRequests(socket: Socket, onRequest: (request: SeenRequest) => void): void {
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', (bytes: Buffer) => {
    rest = Buffer.concat([rest, bytes])
    for (;;) {
      const headEnd = rest.indexOf('\r\n\r\n')
      if (headEnd === -1) return
      const head = rest.toString('latin1', 0, headEnd)
      const bodyStart = headEnd + 4
      const bodyEnd = bodyStart + Number(/\r\ncontent-length: (\d+)/.exec(head)![1])
      if (rest.length < bodyEnd) return
      const body = JSON.parse(rest.toString('utf8', bodyStart, bodyEnd))
      rest = rest.subarray(bodyEnd)
      const [, hoster] = /^POST \/([^/]*)/.exec(head)!
      onRequest({ hoster: hoster!, text: body.messages[0].content, stream: body.stream === true })
    }
  })
}

/** The whole response to a request with the text `<customer> <number>`. */
function answerBytes({ text, stream }: SeenRequest, random: () => number): Buffer {
  const [customer, number] = text.split(' ').map(Number)
  const content = answerText(customer!, number!)
  const usage = { prompt_tokens: 5, completion_tokens: 40, total_tokens: 45 }
  if (!stream) {
    const choice = { index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }
    const body = Buffer.from(JSON.stringify({ object: 'chat.completion', choices: [choice], usage }))
    const type = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n'
    if (random() < 0.5) return Buffer.concat([Buffer.from(`${type}content-length: ${body.length}\r\n\r\n`), body])
    return Buffer.concat([Buffer.from(`${type}transfer-encoding: chunked\r\n\r\n`), chunksOf([body])])
  }
  const pieces = content.match(/.{1,40}/g)!
  const events = [
    ...pieces.map(piece => ({ choices: [{ index: 0, delta: { content: piece }, finish_reason: null }] })),
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { choices: [], usage },
  ].map(event => `data: ${JSON.stringify({ object: 'chat.completion.chunk', ...event })}\n\n`)
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
  return Buffer.concat([Buffer.from(head), chunksOf([...events, 'data: [DONE]\n\n'].map(event => Buffer.from(event)))])
}

function chunksOf(pieces: readonly Buffer[]): Buffer {
  const framed = pieces.flatMap(piece => [Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')])
  return Buffer.concat([...framed, Buffer.from('0\r\n\r\n')])
}
