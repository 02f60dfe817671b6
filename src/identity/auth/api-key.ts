import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** `sk-sy-`: a key of a customer. `hk-sy-`: a key of a hoster. `ok-sy-`: a key of an operator. */
export type KeyPrefix = 'sk-sy-' | 'hk-sy-' | 'ok-sy-'

const RANDOM_CHARS = 32
const CHECKSUM_CHARS = 6
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const SHAPE = /^[sho]k-sy-[0-9A-Za-z]{38}$/

/**
 * Creates an API key: prefix, 32 random base62 characters (190 bits), and a checksum of both. It is shown
 * once and never stored.
 */
export function mintApiKey(prefix: KeyPrefix = 'sk-sy-'): string {
  const body = prefix + randomBase62(RANDOM_CHARS)
  return body + checksumOf(body)
}

/**
 * Whether the text can be a key with the prefix. Needs no database: a guessed key costs a few microseconds and no
 * query.
 */
export function hasValidChecksum(key: string, prefix: KeyPrefix = 'sk-sy-'): boolean {
  if (!SHAPE.test(key) || !key.startsWith(prefix)) return false
  const body = key.slice(0, -CHECKSUM_CHARS)
  return key.endsWith(checksumOf(body))
}

/** Returns the SHA-256 of the whole key as base64. 190 random bits need no salt and no slow hash. */
export function hashApiKey(key: string): string {
  return hash('sha256', key, 'base64')
}

/** Returns the part of a key that may be shown later: the first ten and the last four characters. */
export function hintOf(key: string): string {
  return `${key.slice(0, 10)}…${key.slice(-4)}`
}

/**
 * Returns the CRC-32 as six base62 digits, the format that secret scanners know from GitHub's tokens; 62^6
 * exceeds 2^32.
 */
function checksumOf(body: string): string {
  let rest = crc32(body)
  let digits = ''
  for (let i = 0; i < CHECKSUM_CHARS; i++) {
    digits = BASE62[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

function randomBase62(count: number): string {
  let text = ''
  while (text.length < count) {
    for (const byte of randomBytes(count)) {
      // 248 is the largest multiple of 62 below 256. Using larger bytes would make the first eight digits
      // more likely.
      if (byte < 248 && text.length < count) text += BASE62[byte % 62]
    }
  }
  return text
}
