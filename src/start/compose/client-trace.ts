import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { clientAddressOf } from '../../base/runtime/client-address.ts'
import { headerValues } from '../../base/runtime/header-list.ts'
import type { ClientTrace } from '../../identity/people/sessions.ts'
import type { Config } from '../config/config.ts'

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
