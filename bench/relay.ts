import { createServer, type IncomingHttpHeaders } from 'node:http'
import { Pool } from 'undici'
import { reportPort } from './process.ts'

/**
 * The floor: the least a Node gateway can do. It forwards bytes over kept-alive connections, chunk by chunk, with
 * back-pressure, and aborts the upstream when the client leaves. Usage: `node bench/relay.ts http://127.0.0.1:PORT`
 */
const upstream = new Pool(process.argv[2]!, { headersTimeout: 0, bodyTimeout: 0 })

const server = createServer((request, response) => {
  upstream.dispatch(
    { method: 'POST', path: request.url!, headers: endToEnd(request.headers), body: request },
    {
      onRequestStart(controller) {
        response.on('close', () => response.writableFinished || controller.abort(new Error('client left')))
      },
      onResponseStart(controller, status, headers) {
        response.writeHead(status, endToEnd(headers))
        response.on('drain', () => controller.resume())
      },
      onResponseData(controller, chunk) {
        if (!response.write(chunk)) controller.pause()
      },
      onResponseEnd() {
        response.end()
      },
      onResponseError() {
        if (response.headersSent) response.destroy()
        else response.writeHead(502).end()
      },
    },
  )
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => reportPort(server))

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { host, connection, 'keep-alive': keepAlive, 'transfer-encoding': transferEncoding, ...rest } = headers
  return rest
}
