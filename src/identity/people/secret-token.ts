import { createHash, randomBytes } from 'node:crypto'

/** A secret of 256 random bits, for a cookie or a link. The database stores its hash. */
export interface SecretToken {
  /** 43 characters of base64url. */
  readonly token: string
  readonly hash: Buffer
}

export function mintSecretToken(): SecretToken {
  const token = randomBytes(32).toString('base64url')
  return { token, hash: hashSecretToken(token) }
}

export function isSecretToken(text: string): boolean {
  return /^[\w-]{43}$/.test(text)
}

/** SHA-256. 256 random bits need no salt and no slow hash. */
export function hashSecretToken(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
