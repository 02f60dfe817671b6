import type { IncomingMessage, RequestListener, Server } from 'node:http'
import { http } from '../base/runtime/node-http.ts'

/** The size limit of the request line and headers. */
export const HEAD_BYTES_MAX = 16 * 1024

/**
 * Above the idle timeout of common load balancers (60 s), so that they close idle connections before the gateway
 * does.
 */
export const KEEP_ALIVE_MS = 75_000

/**
 * TCP probes a client after this long without traffic; the client has ten seconds to respond. Without probes,
 * a request would run, and be billed, to the end after its client's machine has failed. Streams are never
 * silent for this long.
 */
const TCP_PROBE_AFTER_MS = 60_000

/**
 * Creates the node:http server, with timeouts and size limits against slow and oversized requests.
 *
 * @param isUpgrade whether a request with an Upgrade header gets another protocol, in the event 'upgrade'. All others are
 *   served as if they did not have the header: clients written in Java ask every server for HTTP/2 this way.
 */
export function createNodeServer(
  listener: RequestListener,
  isUpgrade: (request: IncomingMessage) => boolean = () => false,
): Server {
  return http.createServer(
    {
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAlive: true,
      keepAliveInitialDelay: TCP_PROBE_AFTER_MS,
      maxHeaderSize: HEAD_BYTES_MAX,
      connectionsCheckingInterval: 1_000,
      // `AllowedHosts` checks the Host header: node:http would refuse such requests with an empty body.
      requireHostHeader: false,
      shouldUpgradeCallback: isUpgrade,
    },
    listener,
  )
}
