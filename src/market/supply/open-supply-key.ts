import type { SealingKeys } from '../../base/domain/sealing-keys.ts'
import { SupplyError } from '../../base/domain/supply-error.ts'
import { openSecret, type SecretOwner, UnreadableSecret } from '../../base/secrets/sealed-secret.ts'

/** Opens the key of a hoster's server or of a provider. Throws SupplyError `unreadable_key`. */
export function openSupplyKey(masterKeys: SealingKeys, sealed: Buffer, owner: SecretOwner): string {
  try {
    return openSecret(masterKeys, sealed, owner)
  } catch (error) {
    throw error instanceof UnreadableSecret ? new SupplyError('unreadable_key', error.message) : error
  }
}
