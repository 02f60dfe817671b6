import { hash, timingSafeEqual } from 'node:crypto'
import { headerValues } from '../../base/runtime/header-list.ts'

/** Sent by gateways to those of another cell: how often the request was passed on, and the secret of the cells. */
export const CELL_HEADER = 'switchyard-cell'

export function cellHeader(relays: number, secret: string): string {
  return `${relays} ${secret}`
}

/**
 * Returns how often other cells have passed a request on. 0 for requests of clients: whatever they send, they do not know the
 * secret.
 *
 * @param rawHeaders names and values in turn, as Node's `request.rawHeaders`
 */
export function relaysOf(rawHeaders: readonly string[], secret: string): number {
  const [value, ...others] = headerValues(rawHeaders, CELL_HEADER)
  const [, relays, sent] = /^([1-9]) (\S+)$/.exec(value ?? '') ?? []
  if (relays === undefined || sent === undefined || others.length > 0) return 0
  return timingSafeEqual(digest(sent), digest(secret)) ? Number(relays) : 0
}

/** Of equal length, as the comparison needs. */
function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
