import { randomUUID } from 'node:crypto'
import { type Command, Option } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { transactionOrDryRun } from '../base/db/dry-run.ts'
import type { Sql } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { type Customer, promoteAccountTier } from '../money/accounts/customers.ts'
import { grantCredit } from '../money/ledger/accounts/grant-credit.ts'
import { hasPaidCredit } from '../money/ledger/accounts/has-paid-credit.ts'
import { balanceOf } from '../money/ledger/accounts/read-balance.ts'
import { amountArgument, textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { confirm } from './confirm.ts'
import { Failure, UsageError } from './failure.ts'
import { requireEvidence } from './require-master-key.ts'
import { resolveCustomer } from './resolve.ts'
import { withDatabase } from './with-database.ts'

export function creditCommands(): Command {
  return createCommandGroup('credit', 'Grant credit to customers', [grant()])
}

function grant(): Command {
  return createCommand(
    'grant',
    'Add credit to a balance; the first paid grant moves a customer from free to standard',
    [
      'credit grant ada@example.com 25 --paid --reason "invoice 1042" --ref invoice-1042 --yes',
      'credit grant ada@example.com 0.50 --promotion --reason "goodwill" --dry-run',
    ],
  )
    .argument('<customer>', 'e-mail or id')
    .argument('<usd>', 'amount in USD, at most 9 decimals', amountArgument)
    .requiredOption('--reason <text>', 'why; stored in the ledger and shown to the customer; required', textArgument)
    .option('--paid', 'the customer paid for it, for example by invoice; this or --promotion is required')
    .addOption(
      new Option(
        '--promotion',
        'nobody paid for it; what it pays to hosters comes from the budget of promotion',
      ).conflicts('paid'),
    )
    .option('--ref <ref>', 'payment or invoice number; a ref is granted only once', textArgument)
    .option('--yes', 'do not ask for confirmation')
    .option('--dry-run', 'show what would happen; change nothing')
    .action(async (emailOrId: string, amountNanos: Nanos, options) => {
      const session = createSession(options)
      const { output } = session
      const dryRun = options.dryRun === true
      const isPromotion = options.promotion === true
      // No default: paid credit can be cashed at a hoster of one's own, and promotion credit of honest payers would
      // cost their hosters.
      if (!isPromotion && options.paid !== true)
        throw new UsageError('Add --paid if the customer paid for the credit, or --promotion if nobody did.')
      if (!dryRun && options.yes !== true) {
        const question = `Grant ${usdText(amountNanos)} USD to ${emailOrId}?`
        await confirm(session, question, 'Add --yes to confirm, or --dry-run to see what would happen.')
      }
      const givenRef = options.ref as string | undefined
      const order = { amountNanos, ref: givenRef ?? `cli-${randomUUID()}`, reason: options.reason, isPromotion }
      const done = await withDatabase(session, pool =>
        transactionOrDryRun(pool, dryRun, async sql => {
          const granted = await grantTo(sql, emailOrId, order)
          if (granted.granted && !dryRun) {
            const { customerId } = granted.customer
            await (await requireEvidence(session, sql)).add(sql, 'credit', order.ref, { customerId, amountNanos })
            const { ref, reason } = order
            const detail = { amount_usd: usdText(amountNanos), ref, reason, is_promotion: isPromotion }
            await noteAction(sql, {
              ...commandLine,
              ...{ action: 'credit.granted', subject: customerId, customerId, detail },
            })
          }
          return granted
        }),
      )
      const { customer, granted, promoted, balanceNanos } = done
      output.result(
        {
          customer_id: customer.customerId,
          email: customer.email,
          amount_usd: usdText(amountNanos),
          is_promotion: isPromotion,
          // Without --ref, the grant itself draws another one.
          ref: dryRun ? (givenRef ?? null) : order.ref,
          // A program that reads only `granted` must not mistake a dry run for a grant.
          ...(dryRun ? { granted: false, would_grant: granted } : { granted }),
          account_tier: promoted ? 'standard' : customer.accountTier,
          balance_usd: usdText(balanceNanos),
          dry_run: dryRun,
        },
        dryRun && done.granted ? dryRunText(done, amountNanos, givenRef) : resultText(done, order),
      )
    })
}

interface Order {
  readonly amountNanos: Nanos
  readonly ref: string
  readonly reason: string
  readonly isPromotion: boolean
}

interface Granted {
  readonly customer: Customer
  /** False if this credit was already granted with this ref. */
  readonly granted: boolean
  readonly promoted: boolean
  readonly balanceNanos: Nanos
}

async function grantTo(sql: Sql, emailOrId: string, order: Order): Promise<Granted> {
  const customer = await resolveCustomer(sql, emailOrId)
  const { customerId } = customer
  const isFirst = !(await hasPaidCredit(sql, customerId))
  const result = await grantCredit(sql, { customerId, ...order })
  if (result.kind === 'no_account')
    throw new Failure(`${customer.email} has no account in the ledger. Nothing was changed.`)
  if (result.kind === 'ref_taken') {
    throw new Failure(
      `The ref ${order.ref} was used for another customer or amount, or with another mark. Nothing was changed. Choose another --ref.`,
    )
  }
  const granted = result.kind === 'granted'
  const promoted =
    granted &&
    isFirst &&
    !order.isPromotion &&
    (await promoteAccountTier(sql, { customerId, from: 'free', to: 'standard' }))
  const balance = await balanceOf(sql, customerId)
  return { customer, granted, promoted, balanceNanos: balance.postedNanos }
}

function dryRunText(
  { customer, promoted, balanceNanos }: Granted,
  amountNanos: Nanos,
  ref: string | undefined,
): string {
  const promotion = promoted ? ' and move from free to standard' : ''
  const would = `${customer.email} would get ${usdText(amountNanos)} USD${promotion}`
  return `${would}; the balance would be ${usdText(balanceNanos)} USD. Ref: ${ref ?? 'chosen by the grant'}`
}

function resultText({ customer, granted, promoted, balanceNanos }: Granted, order: Order): string {
  const balance = `${usdText(balanceNanos)} USD`
  const amount = `${usdText(order.amountNanos)} USD`
  if (!granted)
    return `${amount} with the ref ${order.ref} was granted before. Nothing was changed. The balance is ${balance}.`
  const promotion = promoted ? ' and moves from free to standard' : ''
  return `${customer.email} gets ${amount}${promotion}; the balance is ${balance}. Ref: ${order.ref}`
}
