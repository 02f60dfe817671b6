import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { clientAddressOf } from '../../base/runtime/client-address.ts'
import { headerValues } from '../../base/runtime/header-list.ts'
import { relaysOf } from '../../http/cells/cell-header.ts'
import type { ClientTrace } from '../../identity/people/sessions.ts'
import type { Config } from '../config/config.ts'

const USER_AGENT_CHARACTERS_MAX = 300

/** Returns what is known of the client of a request. Only configured proxies and gateways of other cells are believed. */
export function clientTrace(config: Pick<Config, 'server' | 'cells'>, { raw }: FastifyRequest): ClientTrace {
  return {
    address: clientAddress(config, raw),
    userAgent: (headerValues(raw.rawHeaders, 'user-agent')[0] ?? '').slice(0, USER_AGENT_CHARACTERS_MAX),
  }
}

/** Returns the address of the client of a request. */
export function clientAddress(
  { server, cells }: Pick<Config, 'server' | 'cells'>,
  { socket, rawHeaders }: IncomingMessage,
): string {
  const [forwardedFor = '', ...others] = headerValues(rawHeaders, 'x-forwarded-for')
  // The other cell has found the address out and sent it alone. Proxies between the two add theirs behind it.
  const [first = ''] = forwardedFor.split(',', 1)
  if (cells !== null && relaysOf(rawHeaders, cells.secret) > 0) return first
  return clientAddressOf(socket.remoteAddress ?? '', [forwardedFor, ...others], server.trustedProxies)
}
