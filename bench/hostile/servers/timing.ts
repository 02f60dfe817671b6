import type { ServerBehaviour } from '../behaviour.ts'
import { flood } from '../flood.ts'
import { chunk, completion, drip, frame, honest, jsonHead, responseHead, server, streamHead } from './answer.ts'

const manyWaiting = { ratePerS: 100, inFlightMax: 500 }

function* letters(text: string): Generator<string> {
  for (;;) yield* text
}

/** Servers that are silent, slow, or close connections at the wrong time. */
export const timingBehaviours: readonly ServerBehaviour[] = [
  server('refuses', 'a closed port', () => {}, { isClosed: true, load: { ratePerS: 200 } }),
  server('resets-at-once', 'a reset for each connection', () => {}, {
    onConnection: socket => socket.resetAndDestroy(),
    load: { ratePerS: 200 },
  }),
  server('resets-after-request', 'a reset for each request', ({ socket }) => socket.resetAndDestroy(), {
    load: { ratePerS: 200 },
  }),
  server('resets-in-body', 'a reset after a part of the answer', ({ socket, stream: isStream }) => {
    const part = isStream ? Buffer.concat([streamHead, frame(chunk({ content: 'Hello' }))]) : jsonHead
    socket.write(part, () => socket.resetAndDestroy())
  }),
  server('ends-without-done', 'an end after a part of the answer', ({ socket, stream: isStream }) => {
    socket.end(
      isStream
        ? Buffer.concat([streamHead, frame(chunk({ content: 'Hello' }))])
        : Buffer.concat([jsonHead, frame('{"choices"')]),
    )
  }),
  server('silent', 'silence after the request', () => {}, { load: manyWaiting }),
  server(
    'silent-after-head',
    'silence after the head',
    ({ socket, stream: isStream }) => socket.write(isStream ? streamHead : jsonHead),
    {
      load: manyWaiting,
    },
  ),
  server(
    'silent-after-start',
    'silence after half of the JSON',
    ({ socket, stream: isStream }) => {
      socket.write(
        Buffer.concat([
          isStream ? streamHead : jsonHead,
          frame(isStream ? 'data: {"choices":[{' : '{"choices":[{"index"'),
        ]),
      )
    },
    { load: manyWaiting },
  ),
  server(
    'head-drip',
    'a head of one byte each 100 ms',
    async ({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\nx: ')
      await drip(socket, letters('x'), 100)
    },
    { load: manyWaiting },
  ),
  server(
    'body-drip',
    'a body of one byte each 20 ms',
    async ({ socket, stream: isStream }) => {
      socket.write(isStream ? streamHead : jsonHead)
      socket.write(
        isStream ? frame('data: {"choices":[{"delta":{"content":"') : frame('{"choices":[{"message":{"content":"'),
      )
      await drip(
        socket,
        letters('x').map(each => frame(each)),
        20,
      )
    },
    { load: { ratePerS: 50, inFlightMax: 200 } },
  ),
  server(
    'spaces',
    'white space without end, as servers send while they generate',
    async ({ socket, stream: isStream }) => {
      socket.write(isStream ? streamHead : jsonHead)
      await flood(socket, frame(' '.repeat(65_536)))
    },
  ),
  server(
    'comment-drip',
    'a keep-alive comment each 10 ms',
    async ({ socket }) => {
      socket.write(streamHead)
      await drip(
        socket,
        letters(' ').map(() => frame(': ping\n\n')),
        10,
      )
    },
    { load: { stream: true, ratePerS: 50, inFlightMax: 200 } },
  ),
  server(
    'flaps',
    'an answer, then a failure, in turns',
    turn => {
      if (turn.count % 2 === 0) turn.socket.write(honest(turn))
      else turn.socket.end(responseHead('500 Internal Server Error', 'content-length: 0'))
    },
    { load: { ratePerS: 200, inFlightMax: 64 } },
  ),
  server('reads-slowly', 'a receive window of nothing: prompts of 1 MB are never read', () => {}, {
    onConnection: socket => socket.pause(),
    load: { ratePerS: 10, inFlightMax: 32, body: { messages: [{ role: 'user', content: 'word '.repeat(200_000) }] } },
  }),
  server(
    'whole-drip',
    'a whole answer in 500 pieces, one each 5 ms',
    async ({ socket }) => {
      const text = completion({ content: 'word '.repeat(2_000) })
      const size = Math.ceil(text.length / 500)
      socket.write(jsonHead)
      await drip(
        socket,
        Array.from({ length: 500 }, (_, at) => frame(text.slice(at * size, (at + 1) * size))),
        5,
      )
      socket.write('0\r\n\r\n')
    },
    { load: { stream: false, ratePerS: 50, inFlightMax: 100 } },
  ),
]
