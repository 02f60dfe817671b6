import { SupplyError } from '../../../base/domain/supply-error.ts'
import { parseOutboundUrl } from '../../../wire/egress/outbound-url.ts'

/**
 * Checks the URL of a hoster and returns it without a trailing slash. Requests and a credential are sent
 * there, so it must be https on the public internet; with `allowPrivate` the operator permits private
 * addresses and http. Throws SupplyError `invalid_url`.
 */
export function checkHosterUrl(text: string, { allowPrivate }: { allowPrivate: boolean }): string {
  const url = parseOutboundUrl(text, { allowPrivate, allowQuery: false })
  if (typeof url !== 'string') return url.href.replace(/(?<!\/)\/+$/, '')
  const isPrivate = typeof parseOutboundUrl(text, { allowPrivate: true, allowQuery: false }) !== 'string'
  const advice = isPrivate
    ? ' To use your own server on a private network, set hosters.allow_private_urls: true in switchyard.yaml and restart the gateway.'
    : ''
  throw new SupplyError('invalid_url', `This hoster URL is refused: ${url}.${advice}`)
}
