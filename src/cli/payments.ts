import { randomUUID } from 'node:crypto'
import type { Command } from 'commander'
import { type AuditAction, noteAction } from '../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { commandLine } from '../base/domain/acting.ts'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { systemClock } from '../base/runtime/scheduler.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import { createDrivers } from '../money/payments/create-drivers.ts'
import { createPaymentSync } from '../money/payments/payment-sync.ts'
import { promoteAfterFirstCredit } from '../money/payments/promote.ts'
import { listDifferences } from '../money/payments/read-differences.ts'
import { findPayment, listPayments, type Payment } from '../money/payments/read-payments.ts'
import { baseUrlOf } from '../start/config/base-url.ts'
import { amountArgument, textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { timeText } from './output.ts'
import { requireEvidence } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function paymentCommands(): Command {
  return createCommandGroup('payments', 'List payments, confirm manual ones, and take them back', [
    list(),
    confirm(),
    takeBack(),
    giveBack(),
    reconcile(),
    differences(),
    accept(),
  ])
}

const LISTED = 100

function list(): Command {
  return createCommand('list', `List the newest ${LISTED} payments`, ['payments list', 'payments list --open'])
    .option('--open', 'only those that wait for their payer')
    .action(async options => {
      const session = createSession(options)
      const filter = { limit: LISTED, after: null, ...(options.open === true && { state: 'open' as const }) }
      const payments = await withDatabase(session, pool => listPayments(pool, filter))
      session.output.result(
        payments.map(shown),
        table(
          ['created', 'customer', 'driver', 'state', 'USD', 'reference', 'id'],
          payments.map(payment => [
            timeText(payment.createdAt),
            emailOrNull(payment.email) ?? 'deleted customer',
            payment.driver,
            payment.mismatch === null ? payment.state : 'MISMATCH',
            usdText(payment.amountNanos),
            payment.reference,
            payment.paymentId,
          ]),
          'There are no payments.',
        ),
      )
    })
}

function confirm(): Command {
  return createCommand('confirm', 'Book that the money of a manual payment arrived', ['payments confirm SY-7K2M-9QXA'])
    .argument('<payment>', 'reference or id', textArgument)
    .action(async (referenceOrId: string, options) => {
      const session = createSession(options)
      const { payment, verdict } = await withDatabase(session, async pool => {
        const payment = await resolvePayment(pool, referenceOrId)
        const { paymentId, customerId } = payment
        const verdict = await transaction(pool, sql =>
          promoteAfterFirstCredit(sql, customerId, async () => {
            const { verdict } = await queryRow<{ verdict: 'paid' | 'paid_before' | 'not_manual' }>(
              sql,
              'SELECT book_manual_payment($1) AS verdict',
              [paymentId],
            )
            if (verdict === 'paid')
              await (await requireEvidence(session, sql)).add(sql, 'payment', paymentId, { customerId })
            return verdict
          }).then(async verdict => {
            if (verdict === 'paid') await note(sql, 'payment.confirmed', payment, payment.amountNanos)
            return verdict
          }),
        )
        return { payment, verdict }
      })
      const { reference } = payment
      if (verdict === 'not_manual') {
        throw new Failure(`The payment ${reference} is not manual: its provider reports it. Nothing was changed.`)
      }
      const amount = `${usdText(payment.amountNanos)} USD`
      session.output.result(
        { payment_id: payment.paymentId, reference, confirmed: verdict === 'paid' },
        verdict === 'paid'
          ? `Booked ${amount} for ${emailOrNull(payment.email) ?? payment.customerId}. Reference: ${reference}`
          : `The payment ${reference} was booked before. Nothing was changed.`,
      )
    })
}

function takeBack(): Command {
  return createCommand(
    'reverse',
    'Take back a manual payment or a voucher: a refund of unspent credit, or a chargeback',
    [
      'payments reverse SY-7K2M-9QXA --reason "sent back to the payer"',
      'payments reverse SY-7K2M-9QXA --amount 10 --chargeback --reason "bank took it back"',
    ],
  )
    .argument('<payment>', 'reference or id', textArgument)
    .option('--amount <usd>', 'USD; default: all that is left of the payment', amountArgument)
    .option('--chargeback', 'take spent credit too: the rest becomes a debt')
    .requiredOption('--reason <text>', 'why; stored in the ledger and shown to the customer; required', textArgument)
    .action(async (referenceOrId: string, options) => {
      const session = createSession(options)
      const reversalId = randomUUID()
      const { payment, amount, verdict } = await withDatabase(session, async pool => {
        const payment = await resolvePayment(pool, referenceOrId)
        if (payment.hasProvider) {
          throw new Failure('Refund this payment in the console: its provider must pay. Nothing was changed.')
        }
        const amount = (options.amount as Nanos | undefined) ?? payment.amountNanos - reversedOf(payment)
        const isChargeback = options.chargeback === true
        const verdict = await transaction(pool, async sql => {
          const { verdict } = await queryRow<{ verdict: string }>(
            sql,
            'SELECT reverse_payment($1, $2, $3, NULL, $4, $5) AS verdict',
            [reversalId, payment.paymentId, amount, isChargeback, options.reason],
          )
          const action = isChargeback ? 'payment.disputed' : 'payment.refunded'
          if (verdict === 'taken') await note(sql, action, payment, amount, { reason: options.reason })
          return verdict
        })
        return { payment, amount, verdict }
      })
      if (verdict !== 'taken') throw new Failure(`${refusals[verdict] ?? verdict} Nothing was changed.`)
      session.output.result(
        { payment_id: payment.paymentId, reversal_id: reversalId, amount_usd: usdText(amount) },
        `Took back ${usdText(amount)} USD of ${payment.reference}. Reversal: ${reversalId}`,
      )
    })
}

const refusals: Readonly<Record<string, string>> = {
  not_paid: 'This payment was not paid.',
  above_payment: 'The payment has less left than this amount.',
  spent: 'The customer has less free credit than this amount. Add --chargeback if the money is gone.',
}

function giveBack(): Command {
  return createCommand('return', 'Give back what a reversal took, for example after a dispute that was won', [
    'payments return 00000000-0000-7000-8000-000000000001',
  ])
    .argument('<reversal>', 'id of the reversal', textArgument)
    .action(async (reversalId: string, options) => {
      const session = createSession(options)
      const isReturned = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const { rows } = await sql.query<{ done: boolean; paymentId: string; customerId: string }>(
            `SELECT return_reversal(reversal_id) AS done, payment_id AS "paymentId", payment.customer_id AS "customerId"
               FROM payment_reversal JOIN payment USING (payment_id)
              WHERE reversal_id::text = lower($1) AND NOT has_provider`,
            [reversalId],
          )
          const [found] = rows
          if (found?.done !== true) return false
          const { paymentId: subject, customerId } = found
          const detail = { reversal_id: reversalId.toLowerCase() }
          await noteAction(sql, { ...commandLine, action: 'payment.reversal_returned', subject, customerId, detail })
          return true
        }),
      )
      if (!isReturned) throw new Failure('There is nothing to give back. Nothing was changed.')
      session.output.result({ reversal_id: reversalId, returned: true }, `Gave back what ${reversalId} took.`)
    })
}

function reconcile(): Command {
  return createCommand('reconcile', 'Ask the payment providers for all payments and book the differences', [
    'payments reconcile',
  ]).action(async options => {
    const session = createSession(options)
    const { config, output } = session
    const done = await withDatabase(session, async pool => {
      const reconciled = await createPaymentSync({
        pool,
        clock: systemClock,
        evidence: await requireEvidence(session, pool),
        drivers: createDrivers(config.payments, () => baseUrlOf(config)),
        log: { warn: (details: object, text: string) => output.note(`${text}: ${JSON.stringify(details)}`) },
      }).reconcile({ isComplete: true })
      const detail = { ...reconciled }
      await noteAction(pool, { ...commandLine, action: 'payment.reconciled', subject: 'all', detail })
      return reconciled
    })
    output.result(
      { ...done },
      `Asked for ${done.looked} payments and events: ${done.booked} booked, ${done.mismatched} with another report than expected, ${done.failed} without an answer.`,
    )
    if (done.failed > 0) throw new Failure('Some payments could not be reconciled. Run the command again.')
  })
}

function differences(): Command {
  return createCommand('differences', 'List what payment providers and the books do not agree on', [
    'payments differences',
  ]).action(async options => {
    const session = createSession(options)
    const open = await withDatabase(session, listDifferences)
    session.output.result(
      open.map(each => ({
        made_at: each.at.toISOString(),
        driver: each.driver,
        kind: each.kind,
        problem: each.problem,
        amount_minor: Number(each.amountMinor),
        currency: each.currency,
        name: each.ref,
        payment_id: each.paymentId,
      })),
      table(
        ['made', 'kind', 'problem', 'amount', 'name', 'payment'],
        open.map(({ at, kind, problem, amountMinor, currency, ref, paymentId }) => [
          timeText(at),
          kind,
          problem,
          `${amountMinor} ${currency}`,
          ref,
          paymentId ?? '',
        ]),
        'Payment providers and the books agree. Amounts would be in the smallest unit of the currency.',
      ),
    )
  })
}

function accept(): Command {
  return createCommand('accept', 'End a difference that you have dealt with at the provider', [
    'payments accept ch_3PqA0x --note "paid back by hand"',
  ])
    .argument('<name>', 'as `payments differences` shows it', textArgument)
    .requiredOption('--note <text>', 'what was done; stored in the audit log; required', textArgument)
    .option('--provider <name>', 'needed if two providers have a difference of this name', textArgument)
    .action(async (ref: string, options) => {
      const session = createSession(options)
      const isEnded = await withDatabase(session, async pool => {
        const { rows } = await pool.query<{ driver: string }>(
          `SELECT driver FROM payment_difference WHERE ref = $1 AND ended_at IS NULL AND driver = coalesce($2, driver)
            ORDER BY driver`,
          [ref, options.provider ?? null],
        )
        if (rows[0] === undefined) return false
        if (rows.length > 1) {
          const names = rows.map(({ driver }) => driver).join(' and ')
          throw new Failure(`${names} each have a difference ${ref}. Choose one with --provider.`)
        }
        const values = [rows[0].driver, ref, options.note]
        const { done } = await queryRow<{ done: boolean }>(
          pool,
          'SELECT accept_payment_difference($1, $2, $3) AS done',
          values,
        )
        return done
      })
      if (!isEnded) throw new Failure(`There is no open difference ${ref}. Nothing was changed.`)
      session.output.result({ name: ref, accepted: true }, `Ended the difference ${ref}.`)
    })
}

/** Notes a change of a payment in the audit log, last in its transaction. */
function note(
  sql: Sql,
  action: AuditAction,
  { paymentId, customerId, driver, reference }: Payment,
  amountNanos: Nanos,
  detail: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  return noteAction(sql, {
    ...{ ...commandLine, action, subject: paymentId, customerId },
    detail: { driver, reference, amount_usd: usdText(amountNanos), ...detail },
  })
}

async function resolvePayment(pool: Pool, referenceOrId: string): Promise<Payment> {
  const { rows } = await pool.query<{ id: string }>(
    'SELECT payment_id AS id FROM payment WHERE payment_id::text = lower($1) OR reference = upper($1)',
    [referenceOrId],
  )
  const found = rows[0] && (await findPayment(pool, rows[0].id))
  if (found === undefined) throw new Failure(`There is no payment ${referenceOrId}.`)
  return found
}

function reversedOf({ reversals }: Payment): Nanos {
  return reversals.reduce((sum, { taken, returned }) => sum + BigInt(taken) - BigInt(returned), 0n)
}

function shown(payment: Payment) {
  return {
    payment_id: payment.paymentId,
    customer_id: payment.customerId,
    email: emailOrNull(payment.email),
    driver: payment.driver,
    state: payment.state,
    amount_usd: usdText(payment.amountNanos),
    reversed_usd: usdText(reversedOf(payment)),
    reference: payment.reference,
    mismatch: payment.mismatch,
    created_at: payment.createdAt.toISOString(),
  }
}
