import { describe, expect, it } from 'vitest'
import { MalformedResponse, type ResponseHead, ResponseParser } from './response-parser.ts'

interface Seen {
  heads: ResponseHead[]
  body: string
  ends: number
  keepsAlive: boolean
  keepAliveS: number | null
  refused: boolean
}

/** Returns a parser that expects a response, and a record of its calls. */
function startReading() {
  const seen: Seen = { heads: [], body: '', ends: 0, keepsAlive: false, keepAliveS: null, refused: false }
  const parser = new ResponseParser({
    onInterimHead: () => {},
    onHead: head => seen.heads.push(head),
    onBody: bytes => {
      seen.body += bytes.toString('latin1')
    },
    onEnd: () => {
      seen.ends++
    },
  })
  parser.expect()
  return { seen, parser }
}

/** Parses these pieces, which share one buffer as the reads of a socket do. */
function read(pieces: readonly Buffer[], closes = false): Seen {
  const { seen, parser } = startReading()
  const memory = Buffer.alloc(Math.max(...pieces.map(piece => piece.length)))
  try {
    for (const piece of pieces) {
      piece.copy(memory)
      parser.push(memory.subarray(0, piece.length))
      memory.fill('?')
    }
    if (closes) parser.close()
  } catch (error) {
    if (!(error instanceof MalformedResponse)) throw error
    seen.refused = true
  }
  return { ...seen, keepsAlive: parser.keepsAlive, keepAliveS: parser.keepAliveS }
}

const bytesOf = (text: string) => Buffer.from(text, 'latin1')
const bytewise = (bytes: Buffer) => Array.from(bytes, byte => Buffer.from([byte]))

const ok = 'HTTP/1.1 200 OK\r\n'
const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`
const hello = '5\r\nhello\r\n0\r\n\r\n'

describe('a well-formed response', () => {
  const kept = { body: 'hello', keepsAlive: true, keepAliveS: null }
  const left = { body: 'hello', keepsAlive: false }
  const empty = { body: '', keepsAlive: true }

  const selfDelimited: [name: string, response: string, seen: Partial<Seen>][] = [
    ['content-length', `${ok}content-length: 5\r\n\r\nhello`, kept],
    ['content-length with leading zeros', `${ok}content-length: 0005\r\n\r\nhello`, kept],
    ['content-length without a blank before it, and many after it', `${ok}content-length:5   \r\n\r\nhello`, kept],
    ['content-length 0', `${ok}content-length: 0\r\n\r\n`, empty],
    ['chunks', `${chunked}${hello}`, kept],
    ['several chunks', `${chunked}1\r\nh\r\n3\r\nell\r\n1\r\no\r\n0\r\n\r\n`, kept],
    ['a chunk of line ends', `${chunked}4\r\n\r\n\r\n\r\n0\r\n\r\n`, { ...kept, body: '\r\n\r\n' }],
    ['hexadecimal chunk sizes', `${chunked}a\r\n0123456789\r\n0B\r\n0123456789a\r\n000\r\n\r\n`, { ends: 1 }],
    ['no chunk but the last', `${chunked}0\r\n\r\n`, empty],
    ['chunk extensions', `${chunked}5;a\r\nhello\r\n0;b=c;d="e;\\"f"\r\n\r\n`, kept],
    ['trailers', `${chunked}5\r\nhello\r\n0\r\nx-a: b\r\nx-c:\r\n\r\n`, kept],
    ['a coding in capitals', `${ok}Transfer-Encoding: Chunked\r\n\r\n${hello}`, kept],
    ['names in capitals', `${ok}CONTENT-LENGTH: 5\r\nCONNECTION: CLOSE\r\n\r\nhello`, left],
    ['no reason phrase', 'HTTP/1.1 200 \r\ncontent-length: 5\r\n\r\nhello', kept],
    ['no blank before the missing reason phrase', 'HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello', kept],
    ['status 204', 'HTTP/1.1 204 No Content\r\n\r\n', empty],
    ['status 304', 'HTTP/1.1 304 Not Modified\r\n\r\n', empty],
    ['status 304 with the length of the omitted body', 'HTTP/1.1 304 x\r\ncontent-length: 5\r\n\r\n', { ends: 1 }],
    ['an interim response before it', `HTTP/1.1 100 Continue\r\n\r\n${ok}content-length: 5\r\n\r\nhello`, kept],
    [
      'several interim responses before it',
      `HTTP/1.1 102 x\r\nconnection: x\r\n\r\nHTTP/1.1 103 x\r\nlink: </a>\r\n\r\n${chunked}${hello}`,
      kept,
    ],
    ['connection: close', `${ok}connection: close\r\ncontent-length: 5\r\n\r\nhello`, left],
    ['close among other options', `${ok}connection: a, close ,b\r\ncontent-length: 5\r\n\r\nhello`, left],
    ['close in a second line', `${ok}connection: a\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello`, left],
    ['an option like close', `${ok}connection: enclose\r\ncontent-length: 5\r\n\r\nhello`, kept],
    ['keep-alive: timeout', `${ok}keep-alive: timeout=7, max=9\r\ncontent-length: 0\r\n\r\n`, { keepAliveS: 7 }],
    ['keep-alive without a timeout', `${ok}keep-alive: max=9\r\ncontent-length: 5\r\n\r\nhello`, kept],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello', left],
    ['HTTP/1.0 with keep-alive', 'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello', kept],
    [
      'HTTP/1.0 with keep-alive and close',
      'HTTP/1.0 200 OK\r\nconnection: keep-alive, close\r\ncontent-length: 5\r\n\r\nhello',
      left,
    ],
    ['bytes above ASCII in a header', `${ok}x: caf\xe9\xa0\r\ncontent-length: 5\r\n\r\nhello`, kept],
    ['every byte in its body', `${ok}content-length: 4\r\n\r\n\0\r\n\xff`, { body: '\0\r\n\xff' }],
  ]

  it.each(selfDelimited)('%s', (_name, response, expected) => {
    const bytes = bytesOf(response)
    const seen = read([bytes])
    expect(seen).toMatchObject({ ...expected, ends: 1, refused: false })
    expect(seen.heads).toHaveLength(1)
    expect(read(bytewise(bytes))).toEqual(seen)
    for (let at = 1; at < bytes.length; at++) {
      expect(read([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(seen)
    }
  })

  it.each(selfDelimited)('is not complete before its last byte: %s', (_name, response) => {
    const bytes = bytesOf(response)
    for (let length = 0; length < bytes.length; length++) {
      const { seen, parser } = startReading()
      parser.push(bytes.subarray(0, length))
      parser.close()
      expect(seen.ends).toBe(0)
    }
  })

  it.each<[name: string, head: string]>([
    ['HTTP/1.1', ok],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\n'],
    ['HTTP/1.0 with keep-alive', 'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n'],
  ])('without a length ends with its connection: %s', (_name, head) => {
    const bytes = bytesOf(`${head}\r\nhello\r\n\r\n${ok}`)
    const seen = read([bytes], true)
    expect(seen).toMatchObject({ body: `hello\r\n\r\n${ok}`, ends: 1, keepsAlive: false, refused: false })
    expect(read(bytewise(bytes), true)).toEqual(seen)
    expect(read([bytes])).toMatchObject({ body: seen.body, ends: 0 })
  })

  it('passes on the headers that the gateway reads, and empty strings for missing ones', () => {
    const head =
      'HTTP/1.1 429 x\r\nContent-Type:  text/plain; a=b \r\nretry-after: 7\r\nserver: x\r\ncontent-length: 0\r\n\r\n'
    expect(read([bytesOf(head)]).heads).toEqual([
      { status: 429, contentType: 'text/plain; a=b', contentEncoding: '', retryAfter: '7', retryAfterMs: '' },
    ])
    const more = `${ok}content-encoding: gzip\r\nretry-after-ms: 70\r\ncontent-length: 0\r\n\r\n`
    expect(read([bytesOf(more)]).heads).toEqual([
      { status: 200, contentType: '', contentEncoding: 'gzip', retryAfter: '', retryAfterMs: '70' },
    ])
  })

  it.each([
    ['204', 'transfer-encoding: chunked'],
    ['204', 'content-length: 5'],
    ['304', 'transfer-encoding: chunked'],
    ['304', 'content-length: 5'],
  ])('with status %s has no body, and closes the connection if it announces one by %s', (status, header) => {
    expect(read([bytesOf(`HTTP/1.1 ${status} x\r\n${header}\r\n\r\n`)])).toMatchObject({ ends: 1, keepsAlive: false })
  })

  it('does not affect later responses on the same connection', () => {
    const { seen, parser } = startReading()
    parser.push(bytesOf(`${ok}connection: close\r\nkeep-alive: timeout=7\r\ncontent-length: 5\r\n\r\nfirst`))
    parser.expect()
    parser.push(bytesOf(`${chunked}6;a=b\r\nsecond\r\n0\r\nx: y\r\n\r\n`))
    parser.expect()
    parser.push(bytesOf(`${ok}content-length: 5\r\n\r\nthird`))
    expect(seen).toMatchObject({ body: 'firstsecondthird', ends: 3 })
    expect(parser).toMatchObject({ keepsAlive: true, keepAliveS: null })
  })
})

describe('the parser refuses', () => {
  const head = (line: string) => `${ok}${line}\r\n\r\nhello`

  it.each<[name: string, response: string]>([
    ['a bare LF after the status', 'HTTP/1.1 200 OK\ncontent-length: 5\r\n\r\nhello'],
    ['a bare LF after a header', `${ok}a: b\ncontent-length: 5\r\n\r\nhello`],
    ['a bare LF at the end of the head', `${ok}content-length: 5\r\n\nhello\r\n\r\n`],
    ['only bare LF, so that the head never ends', 'HTTP/1.1 200 OK\ncontent-length: 5\n\nhello'],
    ['a bare CR in the head', head('a: b\rcontent-length: 5')],
    ['a folded line', head('a: b\r\n c\r\ncontent-length: 5')],
    ['a folded line by tab', head('content-length:\r\n\t5')],
    ['a blank before the colon', head('content-length : 5')],
    ['a blank before the name', head(' content-length: 5')],
    ['a header without a colon', head('content-length')],
    ['a header without a name', head(': 5')],
    ['NUL in the head', head('a: \0\r\ncontent-length: 5')],
    ['a control character in the head', head('a: \x0b\r\ncontent-length: 5')],
    ['a line end before the head', `\r\n${head('content-length: 5')}`],
    ['two content-lengths', head('content-length: 5\r\ncontent-length: 4')],
    ['two equal content-lengths', head('content-length: 5\r\ncontent-length: 5')],
    ['a list of content-lengths', head('content-length: 5, 5')],
    ['length and chunks', `${ok}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n${hello}`],
    ['chunks and length', `${ok}transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n${hello}`],
    ['a negative length', head('content-length: -5')],
    ['a length with plus', head('content-length: +5')],
    ['a hexadecimal length', head('content-length: 0x5')],
    ['a length with a fraction', head('content-length: 5.0')],
    ['a length in quotes', head('content-length: "5"')],
    ['no length after its name', head('content-length:')],
    ['a length above exact integers', head('content-length: 9999999999999999')],
    ['a length with a no-break space', head('content-length: 5\xa0')],
    ['a length with a tab', head('content-length: 5\t')],
    ['an unknown coding', head('transfer-encoding: gzip')],
    ['a second coding', head('transfer-encoding: gzip, chunked')],
    ['chunked twice', `${ok}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n${hello}`],
    ['a coding with a no-break space', `${ok}transfer-encoding: \xa0chunked\r\n\r\n${hello}`],
    ['a coding with a tab', `${ok}transfer-encoding: chunked\t\r\n\r\n${hello}`],
    ['no coding after its name', head('transfer-encoding:')],
    ['chunks in HTTP/1.0', `HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${hello}`],
    ['a chunk size too long', `${chunked}0000000000005\r\nhello\r\n0\r\n\r\n`],
    ['an empty chunk size', `${chunked}\r\nhello\r\n0\r\n\r\n`],
    ['a chunk size with a sign', `${chunked}+5\r\nhello\r\n0\r\n\r\n`],
    ['a negative chunk size', `${chunked}-5\r\nhello\r\n0\r\n\r\n`],
    ['a chunk size with 0x', `${chunked}0x5\r\nhello\r\n0\r\n\r\n`],
    ['a chunk size with an underscore', `${chunked}0_5\r\nhello\r\n0\r\n\r\n`],
    ['a chunk size after a blank', `${chunked} 5\r\nhello\r\n0\r\n\r\n`],
    ['a chunk size before a blank', `${chunked}5 \r\nhello\r\n0\r\n\r\n`],
    ['a chunk size that ends in LF', `${chunked}5\nhello\r\n0\r\n\r\n`],
    ['a chunk size that ends in CR', `${chunked}5\rhello\r\n0\r\n\r\n`],
    ['an extension that ends in LF', `${chunked}5;a\nhello\r\n0\r\n\r\n`],
    ['an extension without a name', `${chunked}5;\r\nhello\r\n0\r\n\r\n`],
    ['an extension with a quote that never ends', `${chunked}5;a="\r\nhello\r\n0\r\n\r\n`],
    ['a control character in an extension', `${chunked}5;\0\r\nhello\r\n0\r\n\r\n`],
    ['no line end after a chunk', `${chunked}5\r\nhello0\r\n\r\n`],
    ['LF after a chunk', `${chunked}5\r\nhello\n0\r\n\r\n`],
    ['CR after a chunk', `${chunked}5\r\nhello\r0\r\n\r\n`],
    ['a chunk longer than its size', `${chunked}4\r\nhello\r\n0\r\n\r\n`],
    ['a trailer that ends in LF', `${chunked}0\r\na: b\n\r\n`],
    ['a trailer without a colon', `${chunked}0\r\n${ok}\r\n`],
    ['a trailer with NUL', `${chunked}0\r\na: \0\r\n\r\n`],
    ['a folded trailer', `${chunked}0\r\na: b\r\n c\r\n\r\n`],
    ['a content-length trailer', `${chunked}0\r\nContent-Length: 5\r\n\r\n`],
    ['a transfer-encoding trailer', `${chunked}0\r\ntransfer-encoding: chunked\r\n\r\n`],
    ['LF after the last chunk', `${chunked}0\r\n\n`],
    ['CR after the last chunk', `${chunked}0\r\n\r\r\n`],
    ['the banner of SSH', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['a TLS alert', '\x15\x03\x01\x00\x02\x02\x46'],
    ['HTTP/2', 'HTTP/2 200 OK\r\ncontent-length: 5\r\n\r\nhello'],
    ['HTTP/1.2', 'HTTP/1.2 200 OK\r\ncontent-length: 5\r\n\r\nhello'],
    ['HTTP/0.9', 'hello'],
    ['http in lower case', 'http/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello'],
    ['two blanks before the status', 'HTTP/1.1  200 OK\r\ncontent-length: 5\r\n\r\nhello'],
    ['a status of two digits', 'HTTP/1.1 20 OK\r\ncontent-length: 5\r\n\r\nhello'],
    ['a status of four digits', 'HTTP/1.1 2000 OK\r\ncontent-length: 5\r\n\r\nhello'],
    ['a status below 100', 'HTTP/1.1 099 OK\r\ncontent-length: 5\r\n\r\nhello'],
    ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n'],
    [
      'an interim response that closes the connection',
      `HTTP/1.1 100 x\r\nconnection: close\r\n\r\n${ok}content-length: 5\r\n\r\nhello`,
    ],
    ['an interim response in HTTP/1.0', `HTTP/1.0 100 x\r\n\r\n${ok}content-length: 5\r\n\r\nhello`],
    ['the body of an interim response', `HTTP/1.1 100 x\r\ncontent-length: 5\r\n\r\nhello${ok}\r\n\r\n`],
  ])('%s', (_name, response) => {
    const bytes = bytesOf(response)
    expect(read([bytes])).toMatchObject({ refused: true, ends: 0 })
    expect(read(bytewise(bytes))).toMatchObject({ refused: true, ends: 0 })
  })

  it.each<[name: string, response: string]>([
    ['a length', `${ok}content-length: 5\r\n\r\nhello`],
    ['chunks', `${chunked}${hello}`],
    ['no body', 'HTTP/1.1 204 x\r\n\r\n'],
  ])('a byte after the end of %s, which is still complete', (_name, response) => {
    for (const rest of ['x', '\r\n', response]) {
      const bytes = bytesOf(response + rest)
      expect(read([bytes])).toMatchObject({ refused: true, ends: 1 })
      expect(read(bytewise(bytes))).toMatchObject({ refused: true, ends: 1 })
    }
  })

  it('a byte before any request', () => {
    const parser = new ResponseParser({ onInterimHead() {}, onHead() {}, onBody() {}, onEnd() {} })
    expect(() => parser.push(bytesOf(ok))).toThrow(MalformedResponse)
  })

  it.each<[name: string, before: string, line: string, after: string]>([
    ['a head', ok, 'x: ', '\r\n\r\n'],
    ['a head after an interim response', `HTTP/1.1 100 x\r\n\r\n${ok}`, 'x: ', '\r\n\r\n'],
    ['the extensions of a chunk', chunked, '5;', '\r\nhello\r\n0\r\n\r\n'],
    ['a trailer', `${chunked}0\r\n`, 'x:', '\r\n\r\n'],
    ['trailers together', `${chunked}0\r\n${'x: y\r\n'.repeat(4_000)}`, 'x:', '\r\n\r\n'],
  ])('%s above 16 KiB', (_name, before, line, after) => {
    const bytes = bytesOf(`${before}${line}${'y'.repeat(16 * 1024)}${after}`)
    const pieces = bytewise(bytes)
    expect(read([bytes])).toMatchObject({ refused: true, ends: 0 })
    expect(read(pieces)).toMatchObject({ refused: true, ends: 0 })
    expect(read(pieces.slice(0, -after.length))).toMatchObject({ refused: true, ends: 0 })
  })

  it('heads above 16 KiB, but not of exactly 16 KiB', () => {
    const start = `${ok}content-length: 0\r\nx: `
    const bytes = bytesOf(`${start}${'y'.repeat(16 * 1024 - start.length - 4)}\r\n\r\n`)
    expect(read([bytes])).toMatchObject({ refused: false, ends: 1 })
    expect(read(bytewise(bytes))).toMatchObject({ refused: false, ends: 1 })
  })
})

describe('a connection that closes', () => {
  it.each<[place: string, sent: string, isMissing: boolean]>([
    ['before the head', '', true],
    ['in the head', 'HTTP/1.1 2', true],
    ['after an interim response', 'HTTP/1.1 100 x\r\n\r\n', true],
    ['before a body', `${ok}content-length: 5\r\n\r\n`, true],
    ['in a body', `${ok}content-length: 5\r\n\r\nhell`, true],
    ['before the first chunk', chunked, true],
    ['in the size of a chunk', `${chunked}5`, true],
    ['in an extension', `${chunked}5;a`, true],
    ['in the line end after a size', `${chunked}5\r`, true],
    ['before the bytes of a chunk', `${chunked}5\r\n`, true],
    ['in a chunk', `${chunked}5\r\nhell`, true],
    ['after the bytes of a chunk', `${chunked}5\r\nhello`, true],
    ['in the line end after a chunk', `${chunked}5\r\nhello\r`, true],
    ['between two chunks', `${chunked}5\r\nhello\r\n`, true],
    ['after the last size', `${chunked}5\r\nhello\r\n0\r\n`, true],
    ['in a trailer', `${chunked}0\r\na`, true],
    ['in the line end after a trailer', `${chunked}0\r\na: b\r`, true],
    ['after a trailer', `${chunked}0\r\na: b\r\n`, true],
    ['in the last line end', `${chunked}0\r\n\r`, true],
    ['after the response', `${chunked}${hello}`, false],
    ['in a body that ends with it', `${ok}\r\nhello`, false],
    ['before a body that ends with it', `${ok}\r\n`, false],
  ])('%s', (_place, sent, isMissing) => {
    const { seen, parser } = startReading()
    parser.push(bytesOf(sent))
    parser.close()
    expect(seen.ends).toBe(isMissing ? 0 : 1)
    expect(parser.keepsAlive).toBe(false)
  })
})
