import { describe, expect, it } from 'vitest'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { GenerationHeader } from '../generation-exchange.ts'
import { PlainRequest, parsePlainRequest, RequestLines } from './plain-request.ts'

const requestLine = 'POST /v1/chat/completions HTTP/1.1\r\n'
const fields = 'Host: h\r\nContent-Type: application/json\r\nAuthorization: Bearer k\r\nContent-Length: 4\r\n'
const plain = `${requestLine}${fields}\r\n{"a"`
const serve = () => {}
const routes = ['/v1/chat/completions', '/v1/responses'].map(path => ({ method: 'POST', path, serve }))
const lines = new RequestLines(routes)
const parse = (text: string) => parsePlainRequest(Buffer.from(text, 'latin1'), lines)

function parsed(text: string): PlainRequest {
  const request = parse(text)
  if (request instanceof PlainRequest) return request
  throw new Error(`expected a request, got ${request}`)
}

describe('a plain request', () => {
  it('is parsed with its original headers and its body', async () => {
    const request = parsed(plain)
    expect(request.httpVersion).toBe('1.1')
    expect(request.rawHeaders).toEqual([
      ...['Host', 'h', 'Content-Type', 'application/json', 'Authorization', 'Bearer k', 'Content-Length', '4'],
    ])
    expect(await request.readBody(4, uncounted)).toEqual(Buffer.from('{"a"'))
  })

  it('leads to the route of its request line', () => {
    expect(parsed(plain).route).toBe(routes[0])
    expect(parsed(plain.replace('chat/completions', 'responses')).route).toBe(routes[1])
    expect(parse('POST /v1/')).toBe(10)
    expect(parse('POST /v1/r')).toBe(11)
    expect(parse('POST /v1/x')).toBe('other')
  })

  it('gives the value of each header that the gateway reads by name, or leaves the request to node:http', () => {
    const values: Record<GenerationHeader, string | undefined> = {
      host: 'h',
      origin: 'https://a.example',
      'content-type': 'application/json',
      'content-length': '4',
      'content-encoding': undefined,
      'transfer-encoding': undefined,
      'idempotency-key': 'k',
      'session-id': 's1',
      'x-session-id': 's2',
      'x-claude-code-session-id': 's3',
    }
    const sessions = 'Session-Id: s1\r\nX-Session-Id: s2\r\nx-claude-code-session-id: s3\r\n'
    const named = `ORIGIN: https://a.example\r\nIdempotency-Key: k\r\n${sessions}Host`
    const request = parsed(plain.replace('Host', named))
    for (const [name, value] of Object.entries(values)) {
      expect(request.header(name as GenerationHeader)).toBe(value)
      if (value === undefined) expect(parse(plain.replace('Host', `${name}: x\r\nHost`))).toBe('other')
    }
  })

  it('collects the headers of the gateway, or null', () => {
    expect(parsed(plain).switchyardHeaders).toBe(null)
    const request = parsed(plain.replace('Host', 'X-Switchyard-A: 1\r\nx-switchyard: 2\r\nx-switchyard-a: 3\r\nHost'))
    expect(request.switchyardHeaders).toEqual(['X-Switchyard-A', '1', 'x-switchyard-a', '3'])
  })

  it('is refused when its body is larger than the limit', async () => {
    await expect(parsed(plain).readBody(3, uncounted)).rejects.toMatchObject({ code: 'request_too_large' })
  })

  it('yields the least number of bytes needed while it is incomplete', () => {
    const headBytes = plain.indexOf('\r\n\r\n') + 4
    for (let length = 0; length < plain.length; length++) {
      expect(parse(plain.slice(0, length))).toBe(length < headBytes ? length + 1 : plain.length)
    }
  })

  it.each<[name: string, field: string, rawHeaders: string[]]>([
    ['an empty value', 'x:\r\n', ['x', '']],
    ['spaces and tabs around a value', 'x: \t a b \t\r\n', ['x', 'a b']],
    ['every character of a token', "!#$%&'*+-.^_`|~09azAZ: x\r\n", ["!#$%&'*+-.^_`|~09azAZ", 'x']],
    ['an unknown field twice', 'x: 1\r\nx: 2\r\n', ['x', '1', 'x', '2']],
    ['a field named like a property of objects', '__proto__: x\r\n', ['__proto__', 'x']],
    ['keep-alive', 'Connection: Keep-Alive\r\n', ['Connection', 'Keep-Alive']],
  ])('may have %s', async (_name, field, rawHeaders) => {
    const request = parsed(`${requestLine}${field}${fields}\r\n{"a"`)
    expect(request.rawHeaders.slice(0, rawHeaders.length)).toEqual(rawHeaders)
    expect(await request.readBody(4, uncounted)).toEqual(Buffer.from('{"a"'))
  })

  it('may be as large as one read of a socket', () => {
    const request = (bytes: number) => {
      const head = `${requestLine}Host: h\r\nContent-Length: ${bytes}\r\n\r\n`
      return `${head}${'x'.repeat(bytes)}`
    }
    const most = 64 * 1024 - request(10_000).length + 10_000
    expect(parsed(request(most)).header('content-length')).toBe(String(most))
    expect(parse(request(most).slice(0, -1))).toBe(64 * 1024)
    expect(parse(request(most + 1).slice(0, -2))).toBe('other')
  })
})

describe('is left to node:http:', () => {
  it.each<[name: string, bytes: string]>([
    ['another address', plain.replace('/v1', '/v2')],
    ['a query', plain.replace('completions', 'completions?a=b')],
    ['another method', plain.replace('POST', 'GET ')],
    ['HTTP/1.0', plain.replace('HTTP/1.1', 'HTTP/1.0')],
    ['an empty line before the request', `\r\n${plain}`],
    ['a byte after the request', `${plain}x`],
    ['another request after the request', plain + plain],
    ['the first byte of TLS', '\x16\x03\x01'],
    ['no fields', `${requestLine}\r\n`],
    ['no Host', plain.replace('Host: h\r\n', '')],
    ['no length', plain.replace('Content-Length: 4\r\n', '')],
    ['a length of 0', plain.replace('Length: 4', 'Length: 0')],
    ['a length that begins with 0', plain.replace('Length: 4', 'Length: 04')],
    ['a length with a sign', plain.replace('Length: 4', 'Length: +4')],
    ['two lengths', plain.replace('Host', 'Content-Length: 4\r\nHost')],
    ['lengths in one field', plain.replace('Length: 4', 'Length: 4, 4')],
    ['two Hosts', plain.replace('Host', 'host: h\r\nHost')],
    ['two content types', plain.replace('Host', 'Content-Type: text/plain\r\nHost')],
    ['two idempotency keys', plain.replace('Host', 'Idempotency-Key: a\r\nIDEMPOTENCY-KEY: a\r\nHost')],
    ['chunks', plain.replace('Host', 'Transfer-Encoding: chunked\r\nHost')],
    ['a body that may be compressed', plain.replace('Host', 'Content-Encoding: identity\r\nHost')],
    ['an expectation', plain.replace('Host', 'Expect: 100-continue\r\nHost')],
    ['an upgrade', plain.replace('Host', 'Upgrade: h2c\r\nHost')],
    ['trailers', plain.replace('Host', 'Trailer: x\r\nHost')],
    ['Connection: close', plain.replace('Host', 'Connection: close\r\nHost')],
    ['a connection with several options', plain.replace('Host', 'Connection: keep-alive, x\r\nHost')],
    ['Proxy-Connection', plain.replace('Host', 'Proxy-Connection: close\r\nHost')],
    ['a folded field', plain.replace('Host: h', 'Host: h\r\n x')],
    ['a space before a colon', plain.replace('Host:', 'Host :')],
    ['a field without a name', plain.replace('Host:', ':')],
    ['a field without a colon', plain.replace('Host: h', 'Host')],
    ['a bare LF', plain.replace('Host: h\r\n', 'Host: h\n')],
    ['a bare CR', plain.replace('Host: h', 'Host: h\rx: y')],
    ['NUL in a value', plain.replace('Host: h', 'Host: h\0')],
    ['DEL in a value', plain.replace('Host: h', 'Host: h\x7f')],
    ['a non-ASCII byte in a value', plain.replace('Host: h', 'Host: h\xe9')],
    ['a bracket in a name', plain.replace('Host', '(x): y\r\nHost')],
    ['more than 100 fields', plain.replace('Host', `${'a:\r\n'.repeat(101)}Host`)],
    [
      'a complete request of more than 64 KiB',
      `${requestLine}Host: h\r\nContent-Length: 65536\r\n\r\n${'x'.repeat(65_536)}`,
    ],
    ['an incomplete head of 16 KiB', `${requestLine}x: ${'x'.repeat(16 * 1024)}`],
    ['a head of more than 16 KiB', plain.replace('Host', `x: ${'x'.repeat(16 * 1024)}\r\nHost`)],
  ])('%s', (_name, bytes) => {
    expect(parse(bytes)).toBe('other')
  })
})
