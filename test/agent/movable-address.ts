import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'

/** One address that leads to one of several gateways, as a balancer does: each connection goes to the next one. */
export interface MovableAddress {
  readonly url: string
  moveTo(...urls: string[]): void
  close(): Promise<void>
}

export async function startMovableAddress(): Promise<MovableAddress> {
  let ports: readonly number[] = []
  let accepted = 0
  const server = createServer(client => {
    const port = ports[accepted++ % ports.length]
    client.on('error', () => {})
    if (port === undefined) {
      client.destroy()
      return
    }
    const gateway = connect(port, '127.0.0.1')
    gateway.on('error', () => client.destroy())
    client.pipe(gateway).pipe(client)
    client.once('close', () => gateway.destroy())
    gateway.once('close', () => client.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    moveTo(...urls) {
      ports = urls.map(url => Number(new URL(url).port))
    },
    async close() {
      server.close()
      ports = []
    },
  }
}
