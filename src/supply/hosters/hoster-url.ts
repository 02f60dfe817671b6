import { SupplyError } from '../../domain/supply-error.ts'
import { parseOutboundUrl } from '../../egress/outbound-url.ts'

/**
 * Checks the address a hoster gave us and returns it without a trailing slash. We will send requests and a credential there,
 * so it must be https on the public internet; `allowPrivate` is the operator's word that private addresses and http are meant.
 * Throws SupplyError `invalid_url`.
 */
export function checkHosterUrl(text: string, { allowPrivate }: { allowPrivate: boolean }): string {
  const url = parseOutboundUrl(text, { allowPrivate, allowQuery: false })
  if (typeof url !== 'string') return url.href.replace(/\/+$/, '')
  const isPrivate = typeof parseOutboundUrl(text, { allowPrivate: true, allowQuery: false }) !== 'string'
  const advice = isPrivate
    ? ' For a server of your own on a private network, set hosters.allow_private_urls: true in switchyard.yaml and restart the gateway.'
    : ''
  throw new SupplyError('invalid_url', `This hoster URL is refused: ${url}.${advice}`)
}
