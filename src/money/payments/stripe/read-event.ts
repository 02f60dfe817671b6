import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { isProviderRef, parseEvent } from '../event-body.ts'
import { type EventRef, InvalidEvent, InvalidSignature } from '../payment-driver.ts'
import type { StripeClient } from './stripe-client.ts'

/** Stripe's own limit for the age of an event. */
const TOLERANCE_S = 300

/**
 * Checks the signature of an event, and reads what it is about. Returns null for an event that names no payment,
 * transfer or account, and for payments and transfers of a connected account. Throws InvalidSignature, and InvalidEvent
 * for a signed body that is no event.
 */
export async function readStripeEvent(
  client: StripeClient,
  secret: string,
  rawBody: Buffer,
  signature: string,
): Promise<EventRef | null> {
  await client(async stripe => {
    try {
      await stripe.webhooks.signature!.verifyHeaderAsync(rawBody, signature, secret, TOLERANCE_S)
    } catch (error) {
      throw new InvalidSignature((error as Error).message)
    }
  })
  requireNotFromFuture(signature)
  return refOf(rawBody)
}

/** Stripe's package checks the age only: an event dated ahead could be sent again until long after its time. */
function requireNotFromFuture(signature: string): void {
  // The last one counts, as in Stripe's package.
  const signedS = Number.parseInt(signature.split(/(?:^|,)t=/).at(-1) ?? '', 10)
  if (!(signedS - Date.now() / 1_000 <= TOLERANCE_S))
    throw new InvalidSignature('Timestamp ahead of the tolerance zone')
}

function refOf(rawBody: Buffer): EventRef | null {
  const event = parseEvent(rawBody)
  if (!isJsonObject(event.data) || !isJsonObject(event.data.object)) throw new InvalidEvent()
  const [eventId, type, { id, object, payment_intent: intent }] = [event.id, event.type, event.data.object]
  if (!isProviderRef(eventId) || !isProviderRef(type)) throw new InvalidEvent()
  // Set for what has happened at an account of a hoster. Payments and transfers happen at the platform's own.
  const { account } = event
  if (isProviderRef(account)) {
    if (type !== 'account.application.deauthorized' && (object !== 'account' || id !== account)) return null
    return { about: 'payout', eventId, type, ref: account }
  }
  const isItself = ['transfer', 'account', 'checkout.session', 'payment_intent'].includes(object as string)
  const ref = isItself ? id : isJsonObject(intent) ? intent.id : intent
  if (!isProviderRef(ref)) return null
  return { about: object === 'transfer' || object === 'account' ? 'payout' : 'payment', eventId, type, ref }
}
