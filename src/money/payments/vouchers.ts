import { createHash, randomUUID } from 'node:crypto'
import { noteAction } from '../../base/db/audit-log.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { networkOf } from '../../base/runtime/client-address.ts'
import { noteRedeemed, takeRedemption } from '../../identity/people/sign-in-throttle.ts'
import type { CreditEvidence } from '../ledger/credit-evidence.ts'
import type { promoteAfterFirstCredit } from './promote.ts'
import { normalisedCode, paymentReference, randomCode } from './random-code.ts'

/** 25 characters of 5 bits. */
const CODE = /^[0-9A-HJKMNP-TV-Z]{25}$/

export interface VoucherCode {
  /** Five groups of five characters. */
  readonly code: string
  readonly hash: Buffer
  /** The last group. */
  readonly hint: string
}

/** Draws a code of 125 random bits. Only its hash is stored: with so many bits it needs no salt. */
export function drawVoucherCode(): VoucherCode {
  const code = randomCode(25).replace(/.{5}(?=.)/g, '$&-')
  return { code, hash: hashOf(normalisedCode(code)), hint: code.slice(-5) }
}

function hashOf(code: string): Buffer {
  return createHash('sha256').update(code).digest()
}

export interface Redemption {
  readonly customerId: string
  readonly personId: string
  readonly code: string
  readonly address: string
  readonly nowMs: number
}

/**
 * Redeems a voucher and returns its payment. Wrong codes slow down further tries of the person and the network, as
 * wrong passwords do. Throws `too_many_attempts` and `voucher_not_valid`.
 */
export async function redeemVoucher(
  inTransaction: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>,
  { customerId, personId, code: typed, address, nowMs }: Redemption,
  promote: typeof promoteAfterFirstCredit,
  evidence: Pick<CreditEvidence, 'add'>,
): Promise<string> {
  const attempt = { personId, network: networkOf(address) }
  // Counted in a transaction of its own, so that parallel and failed tries count too.
  await inTransaction(sql => takeRedemption(sql, attempt, nowMs))
  const code = normalisedCode(typed)
  return inTransaction(async sql => {
    const { verdict, payment } = CODE.test(code)
      ? await promote(sql, customerId, async () => {
          const row = await queryRow<{ verdict: Verdict; payment: string | null }>(
            sql,
            'SELECT * FROM redeem_voucher($1, $2, $3, $4, $5)',
            [randomUUID(), customerId, hashOf(code), paymentReference(), personId],
          )
          return row
        })
      : { verdict: 'unknown' as const, payment: null }
    if (payment === null) throw new ApiError('voucher_not_valid', { message: refusals[verdict], param: 'code' })
    if (verdict === 'redeemed') {
      const { id } = await queryRow<{ id: string }>(sql, 'SELECT voucher_id AS id FROM voucher WHERE payment_id = $1', [
        payment,
      ])
      await evidence.add(sql, 'voucher', id, { customerId })
    }
    await noteRedeemed(sql, attempt)
    if (verdict === 'redeemed') {
      await noteAction(sql, { action: 'voucher.redeemed', personId, subject: payment, customerId, address })
    }
    return payment
  })
}

type Verdict = 'redeemed' | 'duplicate' | 'used' | 'expired' | 'revoked' | 'unknown' | 'no_account'

const refusals: Partial<Record<Verdict, string>> = {
  used: 'This voucher has been used. Ask for a new one where you got it.',
  expired: 'This voucher has expired. Ask for a new one where you got it.',
  revoked: 'This voucher was withdrawn. Ask for a new one where you got it.',
}

/** A voucher, without its code. */
export interface Voucher {
  readonly voucherId: string
  readonly hint: string
  readonly amountNanos: Nanos
  readonly note: string
  readonly isPromotion: boolean
  readonly state: 'unused' | 'redeemed' | 'revoked' | 'expired'
  readonly madeBy: string | null
  readonly madeAt: Date
  readonly expiresAt: Date
  readonly redeemedAt: Date | null
  readonly customerId: string | null
  readonly email: string | null
}

/** Lists vouchers, the newest first. @param after the last voucher of the page before */
export async function listVouchers(
  sql: Sql,
  { limit, after }: { limit: number; after: string | null },
): Promise<Voucher[]> {
  const { rows } = await sql.query<Voucher>(
    `SELECT v.voucher_id AS "voucherId", v.hint, v.amount_nanos AS "amountNanos", v.note, v.is_promotion AS "isPromotion",
       CASE WHEN v.redeemed_at IS NOT NULL THEN 'redeemed' WHEN v.revoked_at IS NOT NULL THEN 'revoked'
         WHEN v.expires_at <= now() THEN 'expired' ELSE 'unused' END AS state,
       coalesce(by.email, v.made_by::text) AS "madeBy", v.made_at AS "madeAt", v.expires_at AS "expiresAt",
       v.redeemed_at AS "redeemedAt", p.customer_id AS "customerId", c.email
     FROM voucher v LEFT JOIN person by ON by.person_id = v.made_by
       LEFT JOIN payment p USING (payment_id) LEFT JOIN customer c ON c.customer_id = p.customer_id
     WHERE $1::uuid IS NULL OR (v.made_at, v.voucher_id) < (SELECT a.made_at, a.voucher_id FROM voucher a WHERE a.voucher_id = $1)
     ORDER BY v.made_at DESC, v.voucher_id DESC LIMIT $2`,
    [after, limit],
  )
  return rows
}
