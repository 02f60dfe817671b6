import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'

const FORWARDING = /^(x-forwarded-|x-real-ip$|forwarded$|via$)/

/**
 * Whether a browser on this machine sent the request. A proxy on this machine forwards requests of others: then one of its
 * headers, the name of the server or `publicBaseUrl` shows it.
 */
export function isLocalRequest({ raw }: Pick<FastifyRequest, 'raw'>, publicBaseUrl: string | null): boolean {
  if (publicBaseUrl !== null && !isLocalHost(new URL(publicBaseUrl).hostname)) return false
  if (Object.keys(raw.headers).some(name => FORWARDING.test(name))) return false
  const host = URL.parse(`http://${raw.headers.host}`)?.hostname ?? ''
  return isLoopback(raw.socket.remoteAddress ?? '') && isLocalHost(host)
}

function isLocalHost(name: string): boolean {
  return name === 'localhost' || isLoopback(name.replace(/^\[|\]$/g, ''))
}

function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback'
}
