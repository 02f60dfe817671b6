import { createSocket } from 'node:dgram'
import { once } from 'node:events'

/** A name server that knows a few names, each with one IPv4 address. */
export interface NameServer {
  readonly port: number
  set(name: string, address: string): void
  close(): void
}

export async function startNameServer(known: Record<string, string>): Promise<NameServer> {
  const addresses = new Map(Object.entries(known))
  const socket = createSocket('udp4')
  socket.on('message', (query, from) => {
    // RFC 1035, 4.1: a header of 12 bytes, then the labels of the name, each with its length before it, and an empty one.
    const labels: string[] = []
    let at = 12
    for (; query[at]! > 0; at += query[at]! + 1) labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!))
    const question = query.subarray(12, at + 5)
    const address = addresses.get(labels.join('.'))
    // Type A. Other types of a known name have no record.
    const isFound = address !== undefined && query.readUInt16BE(at + 1) === 1
    const head = Buffer.concat([
      query.subarray(0, 2),
      Buffer.from([0x85, address === undefined ? 0x83 : 0x80, 0, 1, 0, isFound ? 1 : 0, 0, 0, 0, 0]),
    ])
    // The name of the question, type A, class IN, a second to live, 4 bytes.
    const answer = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...(address ?? '').split('.').map(Number)]
    socket.send(Buffer.concat([head, question, Buffer.from(isFound ? answer : [])]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return {
    port: socket.address().port,
    set: (name, address) => void addresses.set(name, address),
    close: () => void socket.close(),
  }
}
