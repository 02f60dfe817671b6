import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'

export interface RawResponse {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Record<string, string>
  readonly body: string
}

/** Sends exactly these bytes on a connection of their own and reads the first response: for requests no HTTP client would send. */
export async function rawRequest(url: string, ...pieces: (string | Uint8Array)[]): Promise<RawResponse> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {}) // the server may hang up on what it refuses while we still write
  for (const piece of pieces) socket.write(piece)
  let text = ''
  socket.setEncoding('utf8').on('data', part => {
    text += part
    if (isWhole(text)) socket.destroy()
  })
  await once(socket, 'close')
  assertNamedOnce(text)
  return parse(text)
}

function isWhole(text: string): boolean {
  const { headers, body } = parse(text)
  return Buffer.byteLength(body) >= Number(headers['content-length'] ?? Number.POSITIVE_INFINITY)
}

/** Clients join what comes twice, each in its own way. */
function assertNamedOnce(text: string): void {
  const head = text.slice(0, text.indexOf('\r\n\r\n')).toLowerCase()
  const names = Array.from(head.matchAll(/\r\n([^:]+)/g), ([, name]) => name)
  const twice = names.filter((name, at) => names.indexOf(name) !== at)
  if (twice.length > 0) throw new Error(`The response has more than one ${twice.join(', ')}:\n${text}`)
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
 * Sends these bytes as a proxy does, which goes on sending what it has while the answer is on its way, and waits until they are all taken. Rejects when
 * the server resets the connection meanwhile: a proxy then throws the answer away.
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
    // More at a time than a kernel keeps, so that the server is asked for each piece.
    for (let at = 0; at < body.length; at += 0x10000) {
      const isTaken = new Promise(resolve => socket.write(body.subarray(at, at + 0x10000), resolve))
      await isTaken
      await setImmediate()
    }
    while (!isWhole(text)) await once(socket, 'data')
  }
  try {
    await Promise.race([send(), broken.promise])
  } finally {
    socket.destroy()
  }
  return parse(text)
}
