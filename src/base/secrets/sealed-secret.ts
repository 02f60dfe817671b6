import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import type { SealingKeys } from '../domain/sealing-keys.ts'

/** The owner and purpose of a secret. A sealed record opens only with the same two. */
export interface SecretOwner {
  /**
   * The id of a hoster, of a person, of an alert rule, of a request with a stored answer or recorded content, or of the key of an operator;
   * the name of a provider; `client` for what clients keep.
   */
  readonly ownerId: string
  readonly purpose: SecretPurpose
}

/** Each has a place in `sealedPlaces`, from which it is sealed again when the master key was replaced, or a reason in `keptElsewhere`. */
export type SecretPurpose =
  | 'upstream_key'
  | 'provider_key'
  | 'stored_answer'
  | 'webhook_secret'
  | 'totp'
  | 'compaction'
  | 'operator_answer'
  | 'request_content'

/**
 * Seals a secret with AES-256-GCM: version (1 byte), id of the key (8), nonce (12), tag (16), ciphertext.
 * A random 96-bit nonce is safe for 2^32 secrets under one key (NIST SP 800-38D).
 */
export function sealSecret({ current }: SealingKeys, secret: string, owner: SecretOwner): Buffer {
  const beginning = beginningOf(current)
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', current, nonce).setAAD(associatedData(beginning, owner))
  const ciphertext = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()])
  return Buffer.concat([beginning, nonce, cipher.getAuthTag(), ciphertext])
}

/**
 * Opens a record of `sealSecret`. Throws UnreadableSecret if none of the keys sealed it, for another owner, or for a changed
 * byte.
 */
export function openSecret(keys: SealingKeys, sealed: Buffer, owner: SecretOwner): string {
  for (const key of keysFor(keys, sealed)) {
    const secret = openWith(key, sealed, owner)
    if (secret !== undefined) return secret
  }
  throw new UnreadableSecret(owner)
}

/** The first bytes of every record that a key seals, by which SQL finds those of other keys. */
export function beginningOf(key: Buffer): Buffer {
  const known = beginnings.get(key)
  if (known !== undefined) return known
  const made = Buffer.concat([Buffer.of(VERSION), idOf(key)])
  beginnings.set(key, made)
  return made
}

const beginnings = new WeakMap<Buffer, Buffer>()

/** Records of before 2026-11-29 have version 1 and name no key, so each is tried. */
const KEYLESS_VERSION = 1
const VERSION = 2
/** With 64 bits, two keys of one ring never share an id in practice. If they did, both would be tried. */
const KEY_ID_BYTES = 8
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Reveals nothing about the 32 random bytes of the key. */
function idOf(key: Buffer): Buffer {
  return createHmac('sha256', key).update('id of a sealing key').digest().subarray(0, KEY_ID_BYTES)
}

function keysFor({ all }: SealingKeys, sealed: Buffer): readonly Buffer[] {
  if (sealed[0] === KEYLESS_VERSION) return all
  const named = sealed.subarray(0, 1 + KEY_ID_BYTES)
  return all.filter(key => beginningOf(key).equals(named))
}

function openWith(key: Buffer, sealed: Buffer, owner: SecretOwner): string | undefined {
  const headBytes = sealed[0] === KEYLESS_VERSION ? 1 : 1 + KEY_ID_BYTES
  const bodyAt = headBytes + NONCE_BYTES + TAG_BYTES
  if (sealed.length < bodyAt) return undefined
  const nonce = sealed.subarray(headBytes, headBytes + NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(associatedData(sealed.subarray(0, headBytes), owner))
    .setAuthTag(sealed.subarray(headBytes + NONCE_BYTES, bodyAt))
  try {
    return decipher.update(sealed.subarray(bodyAt), undefined, 'utf8') + decipher.final('utf8')
  } catch {
    return undefined
  }
}

/** `1:` for keyless records, as they always had it. */
function associatedData(beginning: Buffer, { ownerId, purpose }: SecretOwner): Buffer {
  const [version] = beginning
  const keyId = beginning.length === 1 ? '' : `${beginning.toString('hex', 1)}:`
  return Buffer.from(`${version}:${keyId}${ownerId}:${purpose}`, 'utf8')
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

/** Every purpose. */
export const secretPurposes = (): readonly SecretPurpose[] => Object.keys(secrets) as SecretPurpose[]

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
  request_content: ['The recorded content of request', null],
}
