import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

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
 * Opens a record of `sealSecret`. Throws UnreadableSecret for another master key, another owner or a changed
 * byte.
 */
export function openSecret(masterKey: Buffer, sealed: Buffer, owner: SecretOwner): string {
  const version = sealed[0]
  if (version !== KEY_VERSION || sealed.length < HEADER_BYTES) throw new UnreadableSecret(owner)
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES)
  const tag = sealed.subarray(1 + NONCE_BYTES, HEADER_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', masterKey, nonce, { authTagLength: TAG_BYTES })
    .setAAD(associatedData(version, owner))
    .setAuthTag(tag)
  try {
    return decipher.update(sealed.subarray(HEADER_BYTES), undefined, 'utf8') + decipher.final('utf8')
  } catch {
    throw new UnreadableSecret(owner)
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

/** A stored secret that cannot be opened, as an operator may read it. */
export class UnreadableSecret extends Error {
  constructor({ ownerId, purpose }: SecretOwner) {
    const [what, remedy] = secrets[purpose]
    const restore = remedy === null ? '' : ` Restore the master key it was encrypted with, or ${remedy}.`
    super(`${what} ${ownerId} cannot be decrypted with this master key.${restore}`)
    this.name = 'UnreadableSecret'
  }
}

/** What each secret is, and what helps without the former master key. Null: its reader does without it. */
const secrets: Readonly<Record<SecretOwner['purpose'], readonly [what: string, remedy: string | null]>> = {
  upstream_key: ['The upstream key of hoster', 'set the key of the hoster again'],
  provider_key: ['The key of provider', 'replace the key of the provider'],
  webhook_secret: ['The webhook secret of alert rule', 'remove the rule and add it again'],
  totp: [
    'The secret of the authenticator app of person',
    'let the person sign in with a recovery code and add the app again',
  ],
  stored_answer: ['The stored answer of request', null],
  operator_answer: ['The stored answer of operator key', null],
  compaction: ['The compacted conversation of', null],
}
