import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// A model server: the first event at once, then one event each 2 ms, 5 in all.

const EVENTS = 5
const EVENT_MS = 2
const event = `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta: { content: ' word' } }] })}\n\n`

const server = createServer(async (request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify({ data: [{ id: 'bench', max_model_len: 8192 }] }))
    return
  }
  for await (const _part of request);
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(event)
  let sent = 1
  const timer = setInterval(() => {
    response.write(event)
    if (++sent < EVENTS) return
    clearInterval(timer)
    response.end('data: [DONE]\n\n')
  }, EVENT_MS)
  response.once('close', () => clearInterval(timer))
})
server.listen(0, '127.0.0.1', () => process.send!({ port: (server.address() as AddressInfo).port }))
