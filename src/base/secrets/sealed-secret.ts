import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { SupplyError } from '../domain/supply-error.ts'

/** The owner and purpose of a secret. A sealed record opens only with the same two. */
export interface SecretOwner {
  /** The id of a hoster, the name of a provider, the id of a request with a stored answer, of an alert rule, or of a person; `client` for what clients keep. */
  readonly ownerId: string
  readonly purpose:
    | 'upstream_key'
    | 'provider_key'
    | 'stored_answer'
    | 'webhook_secret'
    | 'totp'
    | 'compaction'
    | 'operator_answer'
}

/**
 * Seals a secret with AES-256-GCM: key version (1 byte), nonce (12), tag (16), ciphertext.
 * A random 96-bit nonce is safe for 2^32 secrets under one key (NIST SP 800-38D).
 *
 * @param masterKey 32 bytes
 */
export function sealSecret(masterKey: Buffer, secret: string, owner: SecretOwner): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', masterKey, nonce).setAAD(associatedData(KEY_VERSION, owner))
  const ciphertext = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()])
  return Buffer.concat([Buffer.of(KEY_VERSION), nonce, cipher.getAuthTag(), ciphertext])
}

/**
 * Opens a record of `sealSecret`. Throws SupplyError `unreadable_key` for another master key, another owner
 * or a changed byte.
 */
export function openSecret(masterKey: Buffer, sealed: Buffer, owner: SecretOwner): string {
  const version = sealed[0]
  if (version !== KEY_VERSION || sealed.length < HEADER_BYTES) throw unreadable(owner)
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES)
  const tag = sealed.subarray(1 + NONCE_BYTES, HEADER_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', masterKey, nonce, { authTagLength: TAG_BYTES })
    .setAAD(associatedData(version, owner))
    .setAuthTag(tag)
  try {
    return decipher.update(sealed.subarray(HEADER_BYTES), undefined, 'utf8') + decipher.final('utf8')
  } catch {
    throw unreadable(owner)
  }
}

/** The first byte of every record, so that a second master key can be introduced later. */
const KEY_VERSION = 1
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEADER_BYTES = 1 + NONCE_BYTES + TAG_BYTES

function associatedData(version: number, { ownerId, purpose }: SecretOwner): Buffer {
  return Buffer.from(`${version}:${ownerId}:${purpose}`, 'utf8')
}

function unreadable({ ownerId, purpose }: SecretOwner): SupplyError {
  if (purpose === 'stored_answer') {
    return new SupplyError(
      'unreadable_key',
      `The stored answer of request ${ownerId} cannot be decrypted with this master key.`,
    )
  }
  if (purpose === 'webhook_secret') {
    return new SupplyError(
      'unreadable_key',
      `The webhook secret of alert rule ${ownerId} cannot be decrypted with this master key. Restore the master key it was encrypted with, or remove the rule and add it again.`,
    )
  }
  if (purpose === 'provider_key') {
    return new SupplyError(
      'unreadable_key',
      `The key of provider ${ownerId} cannot be decrypted with this master key. Restore the master key it was encrypted with, or replace the key of the provider.`,
    )
  }
  return new SupplyError(
    'unreadable_key',
    `The upstream key of hoster ${ownerId} cannot be decrypted with this master key. Restore the master key it was encrypted with, or set the key of the hoster again.`,
  )
}
