import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface ReceivedWebhook {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A customer's server with scripted answers. */
export interface WebhookReceiver {
  readonly url: string
  readonly received: readonly ReceivedWebhook[]
  /** The answers to the next requests; later ones get 204. */
  answerWith(...answers: ((response: ServerResponse) => void)[]): void
  /** Resolves when this many requests have arrived. */
  arrived(count: number): Promise<readonly ReceivedWebhook[]>
  close(): Promise<void>
}

export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const received: ReceivedWebhook[] = []
  const answers: ((response: ServerResponse) => void)[] = []
  let arrival = Promise.withResolvers<void>()
  const server = createServer(async (request, response) => {
    const body = await text(request).catch(() => '')
    const answer = answers.shift() ?? (response => response.writeHead(204).end())
    answer(response)
    received.push({ path: request.url!, headers: request.headers, body })
    arrival.resolve()
    arrival = Promise.withResolvers()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks?team=7`,
    received,
    answerWith(...more) {
      answers.push(...more)
    },
    async arrived(count) {
      while (received.length < count) await arrival.promise
      return received
    },
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
