import type { Endpoint } from './offer.ts'

/** The header that carries our credential to an upstream; null where none is wanted. */
export function credentialHeader({ apiKey, dialect: { keyHeader } }: Endpoint): [name: string, value: string] | null {
  if (apiKey === null) return null
  return [keyHeader, keyHeader === 'authorization' ? `Bearer ${apiKey}` : apiKey]
}
