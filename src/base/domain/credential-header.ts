import type { Endpoint } from './offer.ts'

/** Returns the header that carries our credential to an upstream; null for an endpoint without a key. */
export function credentialHeader({ apiKey, dialect: { keyHeader } }: Endpoint): [name: string, value: string] | null {
  if (apiKey === null) return null
  return [keyHeader, keyHeader === 'authorization' ? `Bearer ${apiKey}` : apiKey]
}
