import { createHmac, timingSafeEqual } from 'node:crypto'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { isProviderRef, parseEvent } from '../event-body.ts'
import { type EventRef, InvalidEvent, InvalidSignature } from '../payment-driver.ts'

/** Paddle advises five seconds. Its retries are signed again, so this only has to cover clocks that differ. */
const TOLERANCE_S = 300

/**
 * Checks the signature of an event, and reads what it is about. Returns null for an event that names no transaction.
 * Throws InvalidSignature, and InvalidEvent for a signed body that is no event.
 */
export function readPaddleEvent(secret: string, rawBody: Buffer, signature: string): EventRef | null {
  requireSignature(secret, rawBody, signature)
  const event = parseEvent(rawBody)
  if (!isJsonObject(event.data)) throw new InvalidEvent()
  const { event_id: eventId, event_type: type, data } = event
  if (!isProviderRef(eventId) || !isProviderRef(type)) throw new InvalidEvent()
  const ref = type.startsWith('transaction.') ? data.id : type.startsWith('adjustment.') ? data.transaction_id : null
  return isProviderRef(ref) ? { about: 'payment', eventId, type, ref } : null
}

/**
 * `ts=1700000000;h1=...`, with several `h1` while the secret is replaced. Signed are the time, a colon and the body.
 */
function requireSignature(secret: string, rawBody: Buffer, signature: string): void {
  const parts = signature.split(';').map(part => part.split('=') as [string, string?])
  const signedS = parts.find(([name]) => name === 'ts')?.[1] ?? ''
  if (!/^\d{1,12}$/.test(signedS)) throw new InvalidSignature('no time')
  const expected = createHmac('sha256', secret).update(`${signedS}:`).update(rawBody).digest()
  const isSigned = parts.some(([name, hex = '']) => {
    const given = name === 'h1' && /^[0-9a-f]{64}$/.test(hex) ? Buffer.from(hex, 'hex') : null
    return given !== null && timingSafeEqual(given, expected)
  })
  if (!isSigned) throw new InvalidSignature('of another secret, or altered')
  if (Math.abs(Number(signedS) - Date.now() / 1_000) > TOLERANCE_S) throw new InvalidSignature('of another time')
}
