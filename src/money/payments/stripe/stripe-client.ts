import type { Stripe } from 'stripe'
import { loadOnce } from '../../../base/runtime/load-once.ts'
import { ProviderUnavailable } from '../payment-driver.ts'
import type { StripeSettings } from './stripe-settings.ts'

/** The shapes of answers follow this version, whatever the default of the account is. */
const API_VERSION = '2026-10-28.endive'
const TIMEOUT_MS = 10_000

/** Runs a call of Stripe's API. Throws ProviderUnavailable when Stripe does not answer, or asks to wait. */
export type StripeClient = <T>(call: (stripe: Stripe) => Promise<T>) => Promise<T>

/** Creates a client that loads the package with its first call: it takes 40 MB of memory. */
export function createStripeClient({ secretKey, apiUrl }: StripeSettings): StripeClient {
  const load = loadOnce(() => loadStripe(secretKey, apiUrl))
  return async call => {
    try {
      return await call(await load())
    } catch (error) {
      if (isOutage(error)) throw new ProviderUnavailable('Stripe does not answer', { cause: error })
      throw error
    }
  }
}

async function loadStripe(secretKey: string, apiUrl: string | null): Promise<Stripe> {
  const { Stripe } = await import('stripe')
  const url = apiUrl === null ? null : new URL(apiUrl)
  return new Stripe(secretKey, {
    apiVersion: API_VERSION,
    timeout: TIMEOUT_MS,
    maxNetworkRetries: 2,
    telemetry: false,
    ...(url !== null && {
      host: url.hostname,
      port: url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port,
      protocol: url.protocol === 'https:' ? 'https' : 'http',
    }),
  })
}

/** Reads all pages of a list. */
export async function listAll<T>(list: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const each of list) all.push(each)
  return all
}

/** Returns null if Stripe has no such object. */
export async function orNull<T>(found: Promise<T>): Promise<T | null> {
  try {
    return await found
  } catch (error) {
    if ((error as { statusCode?: number }).statusCode === 404) return null
    throw error
  }
}

/**
 * Not StripeIdempotencyError: the key was used with other parameters, which no later call changes. While a call with the
 * same key runs, Stripe answers 409, a StripeAPIError.
 */
const OUTAGES = ['StripeConnectionError', 'StripeAPIError', 'StripeRateLimitError']

function isOutage(error: unknown): boolean {
  return OUTAGES.includes((error as { type?: string }).type ?? '')
}
