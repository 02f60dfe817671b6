import type { ServerBehaviour } from '../behaviour.ts'
import { flood } from '../flood.ts'
import { atLeast, frame, responseHead, says, saysStream, server, streamHead, whole } from './answer.ts'

const busy = { ratePerS: 200, inFlightMax: 64 }
const bad = '400 Bad Request'
const error = (message: string, more: object = {}) =>
  JSON.stringify({ error: { message, type: 'invalid_request_error', ...more } })

/** Servers that refuse requests. */
export const errorBehaviours: readonly ServerBehaviour[] = [
  says('error-pattern', '600 KiB of "input token count", made for slow patterns', () =>
    whole(error('input token count '.repeat(34_000), { code: '400' }), bad),
  ),
  says('error-secrets', '60 KiB of what looks like credentials', () =>
    whole(error('AKIAABCDEFGHIJKLMNOP password: hunter2 Bearer sk-abcdefghijklmnop '.repeat(900)), bad),
  ),
  says('error-deep', 'an error with 30,000 levels', () =>
    whole(`{"error":${'['.repeat(30_000)}${']'.repeat(30_000)}}`, bad),
  ),
  says('error-names', 'an error with 6,000 names', () =>
    whole(JSON.stringify({ error: Object.fromEntries(Array.from({ length: 6_000 }, (_, at) => [`n${at}`, at])) }), bad),
  ),
  says('error-html', '1 MB of HTML with status 502', () => whole(`<html>${'<b>'.repeat(330_000)}`, '502 Bad Gateway')),
  server('error-endless', 'the body of an error without end', async ({ socket }) => {
    socket.write(
      responseHead('500 Internal Server Error', 'content-type: application/json', 'transfer-encoding: chunked'),
    )
    await flood(socket, frame('x'.repeat(65_536)))
  }),
  server('error-silent', 'the head of an error, then silence', ({ socket }) =>
    socket.write(responseHead('500 Oops', 'content-length: 1000')),
  ),
  says('error-in-200', 'an error of 200 kB with status 200', () => whole(error('context length '.repeat(14_000)))),
  saysStream('error-events', '1,000 error events', () =>
    atLeast(60_000, `event: error\ndata: ${error('x'.repeat(40))}\n\n`),
  ),
  server(
    'error-event-endless',
    'an error event of 1 MB, again and again',
    async ({ socket }) => {
      socket.write(streamHead)
      await flood(socket, frame(`event: error\ndata: ${error('input token count '.repeat(50_000))}\n\n`))
    },
    { load: { stream: true } },
  ),
  says(
    'redirect-loop',
    'a redirect to itself',
    () => responseHead('307 Temporary Redirect', 'location: /v1/chat/completions', 'content-length: 0'),
    busy,
  ),
  says(
    'redirect-metadata',
    'a redirect to the metadata address of clouds',
    () => responseHead('302 Found', 'location: http://169.254.169.254/latest/meta-data/', 'content-length: 0'),
    busy,
  ),
  says(
    'rate-limits',
    '429 with a Retry-After of 68 years',
    () => whole(error('slow down'), '429 Too Many Requests', 'retry-after: 2147483648'),
    busy,
  ),
  says(
    'overloaded',
    '503 with a Retry-After that is not a number',
    () => whole(error('busy'), '503 Service Unavailable', `retry-after: ${'9'.repeat(400)}`),
    busy,
  ),
  says('server-errors', '500 for each request', () => whole(error('oops'), '500 Internal Server Error'), busy),
  says(
    'context-errors',
    'prompts are always too long',
    () =>
      whole(error('This model has a maximum context length of 10 tokens.', { code: 'context_length_exceeded' }), bad),
    busy,
  ),
  server('error-in-pieces', 'the body of an error in 10,000 pieces', async ({ socket }) => {
    socket.write(responseHead(bad, 'content-type: application/json', 'transfer-encoding: chunked'))
    socket.write(Buffer.concat(Array.from({ length: 10_000 }, () => Buffer.from('1\r\n \r\n'))))
    socket.write('0\r\n\r\n')
  }),
]
