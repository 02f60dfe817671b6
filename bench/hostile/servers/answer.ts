import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { ServerBehaviour, ServerLoad, Turn } from '../behaviour.ts'
import { flood } from '../flood.ts'

const usualLoad: ServerLoad = { ratePerS: 20, inFlightMax: 16 }

/** A server with a function for each request. */
export function server(
  name: string,
  what: string,
  onRequest: (turn: Turn) => unknown,
  more: Partial<Omit<ServerBehaviour, 'load'>> & { load?: Partial<ServerLoad> } = {},
): ServerBehaviour {
  return { party: 'server', name, what, onRequest, ...more, load: { ...usualLoad, ...more.load } }
}

/** A server that answers each request with the same bytes, built at the first request. */
export function says(name: string, what: string, build: () => Buffer, load: Partial<ServerLoad> = {}): ServerBehaviour {
  let answer: Buffer | undefined
  return server(
    name,
    what,
    ({ socket }) => {
      answer ??= build()
      socket.write(answer)
    },
    { load },
  )
}

/** A server that answers requests for whole answers with this body. */
export function saysWhole(name: string, what: string, body: () => string, load: Partial<ServerLoad> = {}) {
  return says(name, what, () => whole(body()), { stream: false, ...load })
}

/** A server that answers requests for streams with these events. */
export function saysStream(name: string, what: string, events: () => string, load: Partial<ServerLoad> = {}) {
  return says(name, what, () => stream(events()), { stream: true, ...load })
}

/** A server that repeats these events as fast as the gateway reads them. */
export function floods(name: string, what: string, events: () => string, load: Partial<ServerLoad> = {}) {
  let repeated: Buffer | undefined
  return server(
    name,
    what,
    async ({ socket }) => {
      repeated ??= frame(atLeast(65_536, events()))
      socket.write(streamHead)
      await flood(socket, repeated)
    },
    { load: { stream: true, ...load } },
  )
}

/** A complete response with this JSON. */
export function whole(body: string, status = '200 OK', ...fields: string[]): Buffer {
  const bytes = Buffer.from(body)
  return Buffer.concat([
    responseHead(status, 'content-type: application/json', `content-length: ${bytes.length}`, ...fields),
    bytes,
  ])
}

/** A complete response with these events. */
export function stream(events: string): Buffer {
  return Buffer.concat([streamHead, frame(events), Buffer.from('0\r\n\r\n')])
}

export function responseHead(status: string, ...fields: string[]): Buffer {
  return Buffer.from([`HTTP/1.1 ${status}`, ...fields, '', ''].join('\r\n'), 'latin1')
}

export const streamHead = responseHead('200 OK', 'content-type: text/event-stream', 'transfer-encoding: chunked')
export const jsonHead = responseHead('200 OK', 'content-type: application/json', 'transfer-encoding: chunked')

/** One chunk of a chunked body. */
export function frame(text: string): Buffer {
  const bytes = Buffer.from(text)
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}

export const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 }
export const DONE = 'data: [DONE]\n\n'

export function event(data: object): string {
  return `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', ...data })}\n\n`
}

/** A chunk with one choice. */
export function chunk(delta: object, more: object = {}): string {
  return event({ choices: [{ index: 0, delta, finish_reason: null, ...more }] })
}

export const finish = chunk({}, { finish_reason: 'stop' }) + event({ choices: [], usage }) + DONE

/** A whole answer as JSON. */
export function completion(message: object, more: object = {}): string {
  const choice = { index: 0, message: { role: 'assistant', content: 'Hello', ...message }, finish_reason: 'stop' }
  return JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [choice],
    usage,
    ...more,
  })
}

/** An honest answer of either kind. */
export function honest(turn: Turn): Buffer {
  return turn.stream ? stream(chunk({ role: 'assistant', content: 'Hello' }) + finish) : whole(completion({}))
}

/** Writes one piece after the other, with pauses. */
export async function drip(socket: Socket, pieces: Iterable<string | Buffer>, everyMs: number): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return
    socket.write(piece)
    await delay(everyMs)
  }
}

/** Repeats a text until it has this many units. */
export function atLeast(units: number, text: string): string {
  return text.repeat(Math.ceil(units / text.length))
}
