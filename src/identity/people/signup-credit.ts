import { createHash } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import { type Nanos, signupCredit } from '../../base/domain/money.ts'
import { networkOf, regionOf } from '../../base/runtime/client-address.ts'
import { textBefore } from '../../base/runtime/collections.ts'
import { hashSecretToken, isSecretToken } from './secret-token.ts'
import type { ClientTrace } from './sessions.ts'

export interface SignupCreditCaps {
  /** How many sign-ups of one network get the credit in 24 hours. */
  readonly perNetwork: number
  /** How many of one region of addresses: see `regionOf`. */
  readonly perRegion: number
  /** How many sign-ups get it in 24 hours, of all networks. */
  readonly perDay: number
}

/**
 * Opens the account of a new customer, with the signup credit if its mailbox, network, region and browser may have it.
 */
export async function openSignupAccount(
  sql: Sql,
  {
    customerId,
    email,
    creditNanos,
    client: { address, device },
  }: { customerId: string; email: string; creditNanos: Nanos; client: ClientTrace },
  { perNetwork, perRegion, perDay }: SignupCreditCaps,
  nowMs: number,
): Promise<void> {
  const mailbox = createHash('sha256').update(mailboxOf(email)).digest()
  await sql.query('SELECT open_account_by_sign_up($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)', [
    customerId,
    mailbox,
    networkOf(address),
    regionOf(address),
    device !== undefined && isSecretToken(device) ? hashSecretToken(device) : null,
    new Date(nowMs),
    signupCredit(creditNanos),
    perNetwork,
    perRegion,
    perDay,
  ])
}

/**
 * Returns the mailbox of an address: mail to `ada+x@example.com` arrives at `ada@example.com`, and Gmail ignores dots.
 */
export function mailboxOf(email: string): string {
  const [local = '', host = ''] = email.toLowerCase().split('@')
  const name = textBefore(local, '+')
  return /^(gmail|googlemail)\.com$/.test(host) ? `${name.replaceAll('.', '')}@gmail.com` : `${name}@${host}`
}
