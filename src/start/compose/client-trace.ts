import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import type { ClientTrace } from '../../people/sessions.ts'
import { clientAddressOf } from '../../runtime/client-address.ts'
import { headerValues } from '../../runtime/header-values.ts'

const USER_AGENT_CHARACTERS_MAX = 300

/** Returns what is known of the client of a request. Only configured proxies are believed. */
export function clientTrace({ server }: Pick<Config, 'server'>, { raw }: FastifyRequest): ClientTrace {
  return {
    address: clientAddress({ server }, raw),
    userAgent: (headerValues(raw.rawHeaders, 'user-agent')[0] ?? '').slice(0, USER_AGENT_CHARACTERS_MAX),
  }
}

/** Returns the address of the client of a request. */
export function clientAddress({ server }: Pick<Config, 'server'>, { socket, rawHeaders }: IncomingMessage): string {
  return clientAddressOf(socket.remoteAddress ?? '', headerValues(rawHeaders, 'x-forwarded-for'), server.trustedProxies)
}
