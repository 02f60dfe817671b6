import { gzipSync } from 'node:zlib'
import type { ServerBehaviour } from '../behaviour.ts'
import { flood } from '../flood.ts'
import {
  atLeast,
  chunk,
  completion,
  finish,
  frame,
  honest,
  jsonHead,
  responseHead,
  says,
  server,
  stream,
  streamHead,
  whole,
} from './answer.ts'

const interim = (status: string, ...fields: string[]) => responseHead(status, ...fields)
const jsonType = 'content-type: application/json'

/** Servers that break HTTP/1.1 or use its rare parts. */
export const framingBehaviours: readonly ServerBehaviour[] = [
  server('endless-head', 'header fields without end', async ({ socket }) => {
    socket.write('HTTP/1.1 200 OK\r\n')
    await flood(socket, Buffer.from(atLeast(65_536, 'x-field: value\r\n')))
  }),
  says('many-header-fields', '10,000 header fields', () =>
    whole(completion({}), '200 OK', ...Array.from({ length: 10_000 }, (_, at) => `x-${at}: ${at}`)),
  ),
  says('long-header-field', 'a header field of 1 MB', () =>
    whole(completion({}), '200 OK', `x-long: ${'x'.repeat(1e6)}`),
  ),
  server('endless-status-line', 'a status line without end', ({ socket }) => {
    socket.write('HTTP/1.1 200 ')
    return flood(socket, Buffer.alloc(65_536, 'x'))
  }),
  server('continue-flood', '100 Continue without end', ({ socket }) =>
    flood(socket, Buffer.from(atLeast(65_536, interim('100 Continue').toString()))),
  ),
  server('early-hints-flood', '103 Early Hints without end', ({ socket }) =>
    flood(socket, Buffer.from(atLeast(65_536, interim('103 Early Hints', 'link: </x>; rel=preload').toString()))),
  ),
  says('switching-protocols', '101 Switching Protocols, then bytes', () =>
    Buffer.concat([interim('101 Switching Protocols', 'upgrade: h2c', 'connection: upgrade'), Buffer.alloc(65_536)]),
  ),
  says('http2', 'frames of HTTP/2', () =>
    Buffer.from('\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64\0\x04\0\x10\0\0\0\x06\0\0\x40\0', 'latin1'),
  ),
  says('no-head', 'JSON without a head', () => Buffer.from(completion({}))),
  says('folded-fields', 'header fields folded over 1,000 lines', () =>
    Buffer.from(`HTTP/1.1 200 OK\r\nx: a${'\r\n b'.repeat(1_000)}\r\n${jsonType}\r\ncontent-length: 2\r\n\r\n{}`),
  ),
  says('status-999', 'status 999', () => whole(completion({}), '999 Odd')),
  server('long-length', 'a Content-Length far above the body, then silence', ({ socket }) => {
    socket.write(
      Buffer.concat([responseHead('200 OK', jsonType, 'content-length: 99999'), Buffer.from(completion({}))]),
    )
  }),
  says('short-length', 'more bytes than Content-Length announces', () =>
    Buffer.concat([responseHead('200 OK', jsonType, 'content-length: 10'), Buffer.from(completion({}))]),
  ),
  says('huge-length', 'Content-Length: 1e15, then silence', () =>
    responseHead('200 OK', jsonType, 'content-length: 999999999999999'),
  ),
  says('length-and-chunks', 'Content-Length and chunks', () =>
    Buffer.concat([
      responseHead('200 OK', jsonType, 'content-length: 5', 'transfer-encoding: chunked'),
      frame(completion({})),
      Buffer.from('0\r\n\r\n'),
    ]),
  ),
  server('chunk-extensions', 'chunk extensions without end', async ({ socket }) => {
    socket.write(jsonHead)
    socket.write('5;')
    await flood(socket, Buffer.alloc(65_536, 'x=y;'))
  }),
  server(
    'small-extended-chunks',
    'chunks of one byte, each with 1 kB of extensions',
    async ({ socket, stream: isStream }) => {
      socket.write(isStream ? streamHead : jsonHead)
      await flood(socket, Buffer.from(atLeast(65_536, `1;${'x=y;'.repeat(250)}\r\n \r\n`)))
    },
  ),
  server('chunks-of-one-byte', 'a text without end in chunks of one byte', async ({ socket, stream: isStream }) => {
    const bytes = (text: string) => [...text].map(each => `1\r\n${each}\r\n`).join('')
    socket.write(isStream ? streamHead : jsonHead)
    if (!isStream) socket.write(bytes('{"choices":[{"index":0,"message":{"role":"assistant","content":"'))
    await flood(socket, Buffer.from(bytes(isStream ? atLeast(12_000, chunk({ content: 'a' })) : 'a'.repeat(12_000))))
  }),
  server('huge-chunk-size', 'a chunk of 2^48 bytes without end', async ({ socket, stream: isStream }) => {
    socket.write(isStream ? streamHead : jsonHead)
    socket.write('ffffffffffff\r\n')
    await flood(socket, Buffer.alloc(65_536, ' '))
  }),
  server('endless-trailers', 'trailers without end after the answer', async ({ socket, stream: isStream }) => {
    const text = isStream ? chunk({ content: 'Hello' }) + finish : completion({})
    socket.write(Buffer.concat([isStream ? streamHead : jsonHead, frame(text), Buffer.from('0\r\n')]))
    await flood(socket, Buffer.from(atLeast(65_536, 'x-trailer: value\r\n')))
  }),
  says('gzip-bomb', '100 kB of gzip that unpack to 100 MB', () => {
    const bomb = gzipSync(Buffer.alloc(1e8, '{"choices":['))
    return Buffer.concat([
      responseHead('200 OK', jsonType, 'content-encoding: gzip', `content-length: ${bomb.length}`),
      bomb,
    ])
  }),
  server('early-answer', 'an answer before each request', ({ socket }) => socket.write(whole(completion({}))), {
    onConnection: socket => socket.write(whole(completion({}))),
  }),
  server('second-answer', 'each answer twice', turn => turn.socket.write(Buffer.concat([honest(turn), honest(turn)]))),
  server('late-bytes', 'bytes without end after each answer', turn => {
    turn.socket.write(honest(turn))
    return flood(turn.socket, Buffer.alloc(65_536, 'x'))
  }),
  server('stream-for-whole', 'events for a whole answer, JSON for a stream', ({ socket, stream: isStream }) => {
    socket.write(isStream ? whole(completion({})) : stream(chunk({ content: 'Hello' }) + finish))
  }),
]
