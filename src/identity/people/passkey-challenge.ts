import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'

// A challenge carries its own proof: when it ends, random bits, and a MAC over both and over its holder. So asking for
// one stores nothing, and nobody can fill the database by asking.

const TIME_BYTES = 6
const HEAD_BYTES = TIME_BYTES + 16
const MAC_BYTES = 32
const VALID_MS = 300_000

/** The browser (of a sign-in) or session that may use a challenge, and its purpose. */
export interface ChallengeHolder {
  readonly purpose: 'sign-in' | 'confirm' | 'register'
  /** A secret that only this browser has, or the id of a session. */
  readonly holder: string
}

/** Makes a challenge that works for five minutes. */
export function mintChallenge({ current }: SealingKeys, holder: ChallengeHolder, nowMs: number): Buffer<ArrayBuffer> {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUIntBE(nowMs + VALID_MS, 0, TIME_BYTES)
  randomBytes(HEAD_BYTES - TIME_BYTES).copy(head, TIME_BYTES)
  return Buffer.concat([head, macOf(current, holder, head)])
}

/** Whether the challenge, in base64url, was made for this holder and is not too old. */
export function isChallengeOf(
  { all }: SealingKeys,
  challenge: string,
  holder: ChallengeHolder,
  nowMs: number,
): boolean {
  const bytes = Buffer.from(challenge, 'base64url')
  if (bytes.length !== HEAD_BYTES + MAC_BYTES) return false
  const head = bytes.subarray(0, HEAD_BYTES)
  const mac = bytes.subarray(HEAD_BYTES)
  return all.some(key => timingSafeEqual(mac, macOf(key, holder, head))) && head.readUIntBE(0, TIME_BYTES) > nowMs
}

/** Marks a challenge as used. Returns false if it was used before. */
export async function spendChallenge(sql: Sql, challenge: string, nowMs: number): Promise<boolean> {
  const { rowCount } = await sql.query(
    `INSERT INTO person_token (token_hash, purpose, expires_at) VALUES ($1, 'passkey_sign_in', $2)
     ON CONFLICT (token_hash) DO NOTHING`,
    [createHash('sha256').update(challenge).digest(), new Date(nowMs + VALID_MS)],
  )
  return rowCount === 1
}

function macOf(key: Buffer, { purpose, holder }: ChallengeHolder, head: Buffer): Buffer {
  return createHmac('sha256', key).update(`${purpose} ${holder} `).update(head).digest()
}
