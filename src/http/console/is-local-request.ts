import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'

const FORWARDING = /^(x-forwarded-|x-real-ip$|forwarded$|via$)/

/**
 * Whether a browser on this machine may have sent the request. A proxy on this machine forwards requests of others:
 * then one of its headers, the name of the server or `publicBaseUrl` may show it. Nothing shows a proxy that sets no
 * header and names the server by its address, such as nginx with `proxy_pass` alone: so this is no proof.
 */
export function isLocalRequest({ raw }: Pick<FastifyRequest, 'raw'>, publicBaseUrl: string | null): boolean {
  if (publicBaseUrl !== null && !isLocalHost(new URL(publicBaseUrl).hostname)) return false
  if (Object.keys(raw.headers).some(name => FORWARDING.test(name))) return false
  const host = URL.parse(`http://${raw.headers.host}`)?.hostname ?? ''
  return isLoopback(raw.socket.remoteAddress ?? '') && isLocalHost(host)
}

/** Whether a name, as in `URL.hostname`, leads to this machine. */
export function isLocalHost(name: string): boolean {
  return name === 'localhost' || isLoopback(name.replace(/^\[|\]$/g, ''))
}

function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback'
}
