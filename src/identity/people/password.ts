import { argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'

const derive = promisify(argon2)

/** The minimum of OWASP's Password Storage Cheat Sheet. Takes about 30 ms and 19 MiB. */
const COST = { memory: 19_456, passes: 2, parallelism: 1 } as const
const SALT_BYTES = 16
const TAG_BYTES = 32

/** How many passwords this node hashes at a time: each takes 19 MiB, and libuv has four threads. */
const RUNNING_MAX = 2
/** How many wait. The last one waits about a second. */
const WAITING_MAX = 64

/** Hashes a password with Argon2id, as a PHC string: `$argon2id$v=19$m=19456,t=2,p=1$<salt>$<tag>`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const tag = await inTurn(() => tagOf(password, { salt, tagBytes: TAG_BYTES, ...COST }))
  return phcString(salt, tag)
}

/**
 * Whether the password has this hash. A null hash, of a person who has no password or does not exist, takes the same
 * time and never matches.
 */
export async function passwordMatches(password: string, hash: string | null): Promise<boolean> {
  const { salt, tag, ...cost } = parse(hash ?? NOBODYS_HASH)
  const found = await inTurn(() => tagOf(password, { salt, tagBytes: tag.length, ...cost }))
  return timingSafeEqual(found, tag) && hash !== null
}

/** A hash without a known password. */
const NOBODYS_HASH = phcString(randomBytes(SALT_BYTES), randomBytes(TAG_BYTES))

/** Writes a hash that was made at COST. */
function phcString(salt: Buffer, tag: Buffer): string {
  const { memory, passes, parallelism } = COST
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(tag)}`
}

interface Cost {
  /** KiB. */
  readonly memory: number
  readonly passes: number
  readonly parallelism: number
}

function tagOf(password: string, { salt, tagBytes, ...cost }: Cost & { salt: Buffer; tagBytes: number }) {
  // The same letters can be typed as different code points.
  const message = Buffer.from(password.normalize('NFC'))
  return derive('argon2id', { message, nonce: salt, tagLength: tagBytes, ...cost })
}

function parse(hash: string): Cost & { salt: Buffer; tag: Buffer } {
  const [, memory, passes, parallelism, salt = '', tag] =
    /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(hash) ?? []
  if (tag === undefined) throw new Error('A stored password hash is not an Argon2id PHC string.')
  return {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    salt: Buffer.from(salt, 'base64'),
    tag: Buffer.from(tag, 'base64'),
  }
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}

let running = 0
const waiting: (() => void)[] = []

/** Runs `work` when fewer than RUNNING_MAX others run. Rejects with `overloaded` when too many wait. */
async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (running >= RUNNING_MAX) {
    if (waiting.length >= WAITING_MAX) {
      throw new ApiError('overloaded', { message: sayRefusal('refusal.too_many_sign_ins') })
    }
    // The one that ends hands its place over.
    await new Promise<void>(resolve => waiting.push(resolve))
  } else {
    running++
  }
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next) next()
    else running--
  }
}
