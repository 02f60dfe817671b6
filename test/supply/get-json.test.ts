import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { getJson } from '../../src/wire/egress/get-json.ts'

let server: Server
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

// `switchyard doctor` shows these reasons to the operator.
test.each<[reason: string, answer: RequestListener]>([
  ['no answer within 0.2 s', () => {}],
  ['no answer within 0.2 s', (_, response) => void response.writeHead(200).write('{')],
  ['the answer is larger than 1 MB', (_, response) => void response.end(Buffer.alloc(1_000_001, ' '))],
  ['the connection was closed without an answer', (_, response) => void response.destroy()],
])('the reason for a missing answer is reported: %s', async (reason, answer) => {
  server = createServer(answer).listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const timeoutMs = reason.startsWith('no answer') ? 200 : 20_000
  await expect(getJson(`http://127.0.0.1:${port}`, { timeoutMs })).rejects.toThrow(reason)
})
