import type { AddressInfo } from 'node:net'
import { Registry } from 'prom-client'
import { ApiError } from '../base/domain/errors.ts'
import type { Log } from '../base/runtime/log.ts'
import { http } from '../base/runtime/node-http.ts'
import type { AllowedHosts } from './allowed-hosts.ts'

export interface MetricsServerOptions {
  readonly host: string
  /** 0 lets the system choose. */
  readonly port: number
  /** Returns the metrics in Prometheus text format. */
  readonly text: () => Promise<string>
  readonly allowedHosts: AllowedHosts
  readonly log: Pick<Log, 'info' | 'warn'>
}

/** A few scrapers and an operator with curl. */
const CONNECTIONS_MAX = 32

/**
 * Serves GET /metrics on a port of its own, so that no proxy in front of the API can pass it on. If the port cannot
 * be used, the gateway works without metrics, and the log says so. Returns the function that stops the server.
 */
export async function startMetricsServer({ host, port, text, allowedHosts, log }: MetricsServerOptions) {
  const server = http.createServer({ headersTimeout: 10_000, requestTimeout: 10_000 }, (request, response) => {
    const send = (status: number, body: string) => {
      const type = status === 200 ? Registry.PROMETHEUS_CONTENT_TYPE : 'text/plain; charset=utf-8'
      response.writeHead(status, { 'content-type': type }).end(request.method === 'HEAD' ? undefined : body)
    }
    try {
      allowedHosts.require(request)
    } catch (error) {
      return send(400, `${error instanceof ApiError ? error.message : 'Invalid request.'}\n`)
    }
    if (request.url !== '/metrics' || (request.method !== 'GET' && request.method !== 'HEAD')) {
      return send(404, 'The only address of this port is GET /metrics.\n')
    }
    text().then(
      metrics => send(200, metrics),
      error => {
        log.warn({ err: error }, 'the metrics could not be read')
        send(500, 'The metrics could not be read. See the log.\n')
      },
    )
  })
  server.maxConnections = CONNECTIONS_MAX
  const failure = await new Promise<NodeJS.ErrnoException | null>(resolve => {
    server.once('error', resolve).listen({ host, port }, () => resolve(null))
  })
  if (failure === null) {
    const { port: bound } = server.address() as AddressInfo
    log.info({ host, port: bound }, 'metrics are served')
  } else {
    const reason = failure.code === 'EADDRINUSE' ? 'the port is taken' : failure.message
    log.warn({ host, port, reason }, 'metrics are not served; set METRICS_PORT or metrics.port to another port')
  }
  return async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  }
}
