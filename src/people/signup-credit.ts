import { createHash } from 'node:crypto'
import type { Sql } from '../db/pool.ts'
import type { Nanos } from '../domain/money.ts'

export interface SignupCreditCaps {
  /** How many sign-ups of one network get the credit in 24 hours. */
  readonly perNetwork: number
  /** How many sign-ups get it in 24 hours, of all networks. */
  readonly perDay: number
}

/** Opens the account of a new customer, with the signup credit if its mailbox and network may have it. */
export async function openSignupAccount(
  sql: Sql,
  {
    customerId,
    email,
    network,
    creditNanos,
  }: { customerId: string; email: string; network: string; creditNanos: Nanos },
  { perNetwork, perDay }: SignupCreditCaps,
  nowMs: number,
): Promise<void> {
  const mailbox = createHash('sha256').update(mailboxOf(email)).digest()
  await sql.query('SELECT open_account_by_sign_up($1, $2, $3, $4, $5, $6, $7)', [
    customerId,
    mailbox,
    network,
    new Date(nowMs),
    creditNanos,
    perNetwork,
    perDay,
  ])
}

/** Returns the mailbox of an address: mail to `ada+x@example.com` arrives at `ada@example.com`, and Gmail ignores dots. */
export function mailboxOf(email: string): string {
  const [local = '', host = ''] = email.toLowerCase().split('@')
  const name = local.split('+', 1)[0]!
  return /^(gmail|googlemail)\.com$/.test(host) ? `${name.replaceAll('.', '')}@gmail.com` : `${name}@${host}`
}
