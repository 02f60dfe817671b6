import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'

export interface RawResponse {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Record<string, string>
  readonly body: string
}

/** Sends exactly these bytes on a new connection and reads the first response, for requests that no HTTP client would send. */
export async function rawRequest(url: string, ...pieces: (string | Uint8Array)[]): Promise<RawResponse> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {}) // the server may close the connection before it has read everything
  for (const piece of pieces) socket.write(piece)
  let text = ''
  socket.setEncoding('utf8').on('data', part => {
    text += part
    if (isComplete(text)) socket.destroy()
  })
  await once(socket, 'close')
  assertNoDuplicateHeaders(text)
  return parse(text)
}

function isComplete(text: string): boolean {
  const { headers, body } = parse(text)
  return Buffer.byteLength(body) >= Number(headers['content-length'] ?? Number.POSITIVE_INFINITY)
}

/** Throws if a header occurs twice, since clients combine duplicates in different ways. */
function assertNoDuplicateHeaders(text: string): void {
  const head = text.slice(0, text.indexOf('\r\n\r\n')).toLowerCase()
  const names = Array.from(head.matchAll(/\r\n([^:]+)/g), ([, name]) => name)
  const duplicates = names.filter((name, at) => names.indexOf(name) !== at)
  if (duplicates.length > 0) throw new Error(`The response has more than one ${duplicates.join(', ')}:\n${text}`)
}

function parse(text: string): RawResponse {
  const end = text.indexOf('\r\n\r\n')
  const [first = '', ...lines] = (end === -1 ? '' : text.slice(0, end)).split('\r\n')
  const headers = lines.map(line => [
    line.slice(0, line.indexOf(':')).toLowerCase(),
    line.slice(line.indexOf(':') + 1).trim(),
  ])
  return {
    status: Number(first.split(' ')[1] ?? 0),
    headers: Object.fromEntries(headers),
    body: end === -1 ? '' : text.slice(end + 4),
  }
}

/**
 * Sends all of these bytes, like a proxy that keeps sending while the response arrives, and reads the first response. Rejects if
 * the server resets the connection, because a proxy would then discard the response.
 */
export async function sendWhole(url: string, head: string, body: Buffer): Promise<RawResponse> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const broken = Promise.withResolvers<never>()
  socket.on('error', error => broken.reject(error))
  let text = ''
  socket.setEncoding('utf8').on('data', part => {
    text += part
  })
  const send = async () => {
    socket.write(head)
    // In pieces, so that the server has to read each one while this loop goes on.
    for (let at = 0; at < body.length; at += 0x10000) {
      await new Promise(resolve => socket.write(body.subarray(at, at + 0x10000), resolve))
      await setImmediate()
    }
    while (!isComplete(text)) await once(socket, 'data')
  }
  try {
    await Promise.race([send(), broken.promise])
  } finally {
    socket.destroy()
  }
  return parse(text)
}
