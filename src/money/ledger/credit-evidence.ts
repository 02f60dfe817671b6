import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'

/**
 * Proves that a process of the gateway gave a credit. Each is an HMAC-SHA-256 with a key that the database does not
 * have, so no role of the database can make one. The audit checks it. A former key confirms what it signed until it is forgotten.
 */
export interface CreditEvidence {
  /**
   * Adds the evidence of a credit, in the transaction that gave it. Throws, so that nothing is given, when the books differ from
   * `known`: what this process knows of the credit from another source than the database.
   *
   * @param ref of the ledger transaction
   */
  add(sql: Sql, kind: CreditKind, ref: string, known?: KnownFacts): Promise<void>
  /** Adds the evidence of a voucher, in the transaction that made it. */
  addVoucher(sql: Sql, voucherId: string, amountNanos: Nanos): Promise<void>
  /** Checks the facts of the view `given_credit`, or those of a voucher. */
  isValid(facts: readonly (string | null)[], mac: Buffer | null): boolean
  /** Returns the evidence of the current key in the place of that of a former key. Null if it is current, or not valid. */
  renewed(facts: readonly (string | null)[], mac: Buffer): Buffer | null
}

type CreditKind = 'credit' | 'payment' | 'voucher'

interface KnownFacts {
  readonly customerId?: string
  readonly amountNanos?: Nanos
  readonly providerRef?: string
  readonly amountMinor?: number | null
  readonly currency?: string | null
  readonly isLive?: boolean
}

/** The order of `facts` in the view `given_credit`. */
const FACTS = [
  'kind',
  'ref',
  'customerId',
  'amountNanos',
  'paymentId',
  'driver',
  'providerRef',
  'amountMinor',
  'currency',
  'isLive',
] as const

export function createCreditEvidence(keys: SealingKeys): CreditEvidence {
  const macWith = (key: Buffer, facts: readonly (string | null)[]) =>
    createHmac('sha256', key).update(JSON.stringify(facts)).digest()
  const macOf = (facts: readonly (string | null)[]) => macWith(keys.current, facts)
  const isOf = (key: Buffer, facts: readonly (string | null)[], mac: Buffer) =>
    timingSafeEqual(macWith(key, facts), mac)
  return {
    async add(sql, kind, ref, known = {}) {
      const { rows } = await sql.query<{ facts: (string | null)[] }>(
        'SELECT facts FROM given_credit WHERE kind = $1 AND ref = $2',
        [kind, ref],
      )
      const facts = rows[0]?.facts
      if (facts === undefined) throw new Error(`the ${kind} ${ref} gave nothing`)
      for (const [name, value] of Object.entries(known)) {
        const booked = facts[FACTS.indexOf(name as keyof KnownFacts)]
        if (booked !== String(value)) throw new Error(`the ${kind} ${ref} has ${name} ${booked}, not ${value}`)
      }
      await sql.query('SELECT add_credit_evidence($1, $2, $3)', [kind, ref, macOf(facts)])
    },
    async addVoucher(sql, voucherId, amountNanos) {
      await sql.query('SELECT add_voucher_evidence($1, $2)', [voucherId, macOf(voucherFacts(voucherId, amountNanos))])
    },
    isValid: (facts, mac) => mac !== null && keys.all.some(key => isOf(key, facts, mac)),
    renewed(facts, mac) {
      const signer = keys.all.find(key => isOf(key, facts, mac))
      return signer === undefined || signer === keys.current ? null : macOf(facts)
    },
  }
}

function voucherFacts(voucherId: string, amountNanos: Nanos): string[] {
  return ['made voucher', voucherId, String(amountNanos)]
}
