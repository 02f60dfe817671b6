import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { type Customer, promoteAccountTier } from '../accounts/customers.ts'
import { type Sql, transaction } from '../db/pool.ts'
import { type Nanos, usdText } from '../domain/money.ts'
import { grantCredit } from '../ledger/accounts/grant-credit.ts'
import { hasPaidCredit } from '../ledger/accounts/has-paid-credit.ts'
import { readBalance } from '../ledger/accounts/read-balance.ts'
import { amountArgument, textArgument } from './arguments.ts'
import { Failure, UsageError } from './failure.ts'
import { resolveCustomer } from './resolve-customer.ts'
import { noun, type Session, sessionOf, verb } from './verb.ts'
import { withDatabase } from './with-database.ts'
import { withoutEffect } from './without-effect.ts'

export function creditCommands(): Command {
  return noun('credit', 'Add credit to balances', [grant()])
}

function grant(): Command {
  return verb('grant', 'Add paid credit to a balance; the first one moves a customer from free to standard', [
    'credit grant ada@example.com 25 --reason "invoice 1042" --ref invoice-1042 --yes',
    'credit grant ada@example.com 0.50 --reason "goodwill" --dry-run',
  ])
    .argument('<customer>', 'e-mail or id')
    .argument('<usd>', 'amount in USD, at most 9 decimals', amountArgument)
    .requiredOption('--reason <text>', 'why; kept in the ledger, and the customer sees it; required', textArgument)
    .option('--ref <ref>', 'a payment or invoice number; credit with the same ref is granted once', textArgument)
    .option('--yes', 'do not ask')
    .option('--dry-run', 'show what would happen, and change nothing')
    .action(async (emailOrId: string, amountNanos: Nanos, options) => {
      const session = sessionOf(options)
      const { output } = session
      const dryRun = options.dryRun === true
      if (!dryRun && options.yes !== true) await confirm(session, `Grant ${usdText(amountNanos)} USD to ${emailOrId}?`)
      const order = { amountNanos, ref: options.ref ?? `cli-${randomUUID()}`, reason: options.reason }
      const done = await withDatabase(session, pool =>
        dryRun
          ? withoutEffect<Granted>(undo => transaction(pool, async sql => undo(await grantTo(sql, emailOrId, order))))
          : transaction(pool, sql => grantTo(sql, emailOrId, order)),
      )
      const { customer, granted, promoted, balanceNanos } = done
      output.result(
        {
          customer_id: customer.customerId,
          email: customer.email,
          amount_usd: usdText(amountNanos),
          ref: order.ref,
          // A program that reads only this must not take a look for a grant.
          ...(dryRun ? { granted: false, would_grant: granted } : { granted }),
          account_tier: promoted ? 'standard' : customer.accountTier,
          balance_usd: usdText(balanceNanos),
          dry_run: dryRun,
        },
        sentence(done, order, dryRun),
      )
    })
}

interface Order {
  readonly amountNanos: Nanos
  readonly ref: string
  readonly reason: string
}

interface Granted {
  readonly customer: Customer
  /** False when the ref had been used for the same credit before. */
  readonly granted: boolean
  readonly promoted: boolean
  readonly balanceNanos: Nanos
}

async function grantTo(sql: Sql, emailOrId: string, order: Order): Promise<Granted> {
  const customer = await resolveCustomer(sql, emailOrId)
  const { customerId } = customer
  const isFirst = !(await hasPaidCredit(sql, customerId))
  const result = await grantCredit(sql, { customerId, ...order })
  if (result.kind === 'no_account') throw new Failure(`${customer.email} has no money account.`)
  if (result.kind === 'ref_taken') {
    throw new Failure(`The ref ${order.ref} was used for another customer or amount. Nothing was changed.`)
  }
  const granted = result.kind === 'granted'
  const promoted = granted && isFirst && (await promoteAccountTier(sql, { customerId, from: 'free', to: 'standard' }))
  const balance = await readBalance(sql, customerId)
  return { customer, granted, promoted, balanceNanos: balance!.postedNanos }
}

function sentence({ customer, granted, promoted, balanceNanos }: Granted, order: Order, dryRun: boolean): string {
  const balance = `${usdText(balanceNanos)} USD`
  const amount = `${usdText(order.amountNanos)} USD`
  if (!granted)
    return `${amount} with the ref ${order.ref} was granted before: nothing changed. The balance is ${balance}.`
  const promotion = promoted ? ' and moves from free to standard' : ''
  if (dryRun) return `${customer.email} would get ${amount}${promotion}; the balance would be ${balance}.`
  return `${customer.email} gets ${amount}${promotion}; the balance is ${balance}. Ref: ${order.ref}`
}

async function confirm({ output }: Session, question: string): Promise<void> {
  if (!output.interactive)
    throw new UsageError('Nobody is here to confirm this. Add --yes, or --dry-run to look first.')
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await prompt.question(`${question} [y/N] `)
    if (!/^y(es)?$/i.test(answer.trim())) throw new Failure('Nothing was changed.')
  } finally {
    prompt.close()
  }
}
