import { existsSync, writeFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import type { Pool } from '../db/pool.ts'
import { usdText } from '../domain/money.ts'
import {
  approvePayouts,
  cancelPayouts,
  type PreparedHoster,
  type PrepareVerdict,
  preparePayouts,
  settleBankPayout,
} from '../payouts/payout-batches.ts'
import { payoutDriverNames } from '../payouts/payout-driver.ts'
import { createPayoutSync } from '../payouts/payout-sync.ts'
import { findBatch, listBatches, type Payout, type PayoutBatch, payoutsOfBatch } from '../payouts/read-payouts.ts'
import { systemClock } from '../runtime/clock.ts'
import { ownCommand } from '../runtime/own-command.ts'
import { quoteForShell } from '../runtime/quote-for-shell.ts'
import { systemErrorText } from '../runtime/system-error-text.ts'
import { textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { timeText } from './output.ts'
import { payoutDriversOf } from './payout-drivers-of.ts'
import { payoutHosterCommands } from './payout-hoster.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function payoutCommands(): Command {
  return createCommandGroup('payout', 'Pay hosters what they earned', [
    prepare(),
    approve(),
    settle(),
    cancel(),
    list(),
    show(),
    ...payoutHosterCommands(),
  ])
}

const LISTED = 100

function prepare(): Command {
  return createCommand('prepare', 'Make a batch of what hosters are owed past the hold period', [
    'payout prepare',
    'payout prepare --driver stripe --json',
  ])
    .addOption(new Option('--driver <name>', 'how to pay').choices(payoutDriverNames).default('csv'))
    .action(async options => {
      const session = createSession(options)
      const driver = payoutDriversOf(session.config).find(({ name }) => name === options.driver)
      if (driver === undefined) {
        throw new Failure('Stripe is not set up for payouts. Set payouts.stripe and payments.stripe.secret_key.')
      }
      const { batchId, hosters } = await withDatabase(session, pool =>
        preparePayouts(pool, null, driver, session.config.payouts, systemClock.epochMs()),
      )
      session.output.result(
        {
          batch_id: batchId,
          hosters: hosters.map(each => ({
            hoster_id: each.hosterId,
            name: each.name,
            verdict: each.verdict,
            payout_id: each.payoutId,
            amount_usd: usdText(each.amountNanos),
            payable_usd: usdText(each.payableNanos),
          })),
        },
        table(
          ['hoster', 'payable USD', 'paid out', 'result'],
          hosters.map(each => [
            each.name,
            usdText(each.payableNanos),
            usdText(each.amountNanos),
            resultText(each, session.config.payouts.minNanos),
          ]),
          'No hoster has earned anything.',
        ),
      )
      session.output.note(
        batchId === null
          ? 'There is nothing to pay out, and no batch was made.'
          : `Batch ${batchId}. Next: ${ownCommand(`payout approve ${batchId}`)}`,
      )
    })
}

function resultText({ verdict, payableNanos }: PreparedHoster, minNanos: bigint): string {
  if (verdict === 'below_minimum' && payableNanos < 0n) return 'owes this: more was taken back than it had'
  return verdict === 'below_minimum' ? `below the minimum of ${usdText(minNanos)}` : verdictTexts[verdict]
}

const verdictTexts: Readonly<Record<Exclude<PrepareVerdict, 'below_minimum'>, string>> = {
  prepared: 'prepared',
  frozen: 'frozen',
  no_account: 'has no payout account',
  account_not_ready: 'its payout account is not ready',
  other_driver: 'is paid by another driver',
}

function approve(): Command {
  return createCommand('approve', 'Approve a batch, so that it can be settled', [
    'payout approve 00000000-0000-7000-8000-000000000001',
  ])
    .argument('<batch>', 'id of the batch', textArgument)
    .action(async (id: string, options) => {
      const session = createSession(options)
      const { batch, verdict } = await withDatabase(session, async pool => {
        const { batchId } = await resolveBatch(pool, id)
        const verdict = await approvePayouts(pool, null, batchId)
        return { batch: (await findBatch(pool, batchId))!, verdict }
      })
      if (verdict === 'cancelled') throw new Failure('This batch was cancelled. Nothing was changed.')
      if (verdict === 'second_operator') {
        throw new Failure(
          'More than 1,000 USD were prepared and approved by one operator in 24 hours. Let another operator approve this batch in the console. Nothing was changed.',
        )
      }
      session.output.result(
        { ...shownBatch(batch), approved: verdict === 'approved' },
        verdict === 'approved'
          ? `Approved ${counted(batch.payouts)} of ${usdText(batch.amountNanos)} USD. Next: ${ownCommand(`payout settle ${batch.batchId}`)}`
          : 'This batch was approved before. Nothing was changed.',
      )
    })
}

function settle(): Command {
  return createCommand('settle', 'Pay an approved batch, or book what a bank made of it; repeats pay nothing twice', [
    'payout settle 00000000-0000-7000-8000-000000000001 --file november.csv',
    'payout settle 00000000-0000-7000-8000-000000000001 --paid PO-9F3A12BC77D1',
    'payout settle 00000000-0000-7000-8000-000000000001 --failed PO-9F3A12BC77D1 --reason "account closed"',
  ])
    .argument('<batch>', 'id of the batch', textArgument)
    .option('--file <file>', 'write the transfers for the bank to this new file; default: stdout')
    .addOption(
      new Option(
        '--paid <reference...>',
        'book that the bank has made these transfers; all: each that is open',
      ).conflicts('file'),
    )
    .addOption(
      new Option('--failed <reference...>', 'book that these transfers failed: they are payable again').conflicts([
        'file',
        'paid',
      ]),
    )
    .option('--reason <text>', 'why they failed', textArgument)
    .action(async (id: string, options) => {
      const session = createSession(options)
      const references = (options.paid ?? options.failed) as string[] | undefined
      if (options.failed !== undefined && options.reason === undefined) throw new UsageError('Add --reason <text>.')
      if (references !== undefined) {
        const booked = await withDatabase(session, async pool =>
          bookAll(pool, await resolveBatch(pool, id), references, options.failed === undefined ? null : options.reason),
        )
        const changed = booked.filter(({ verdict }) => verdict === 'booked').length
        session.output.result(
          booked.map(({ payout, verdict }) => ({ reference: payout.reference, booked: verdict === 'booked' })),
          `Booked ${counted(changed)} as ${options.failed === undefined ? 'paid' : 'failed'}; booked before: ${booked.length - changed}.`,
        )
        return
      }
      const file = options.file as string | undefined
      if (file !== undefined && existsSync(file)) throw new UsageError(`The file ${file} exists. Name a new one.`)
      const { batch, settled } = await withDatabase(session, async pool => {
        const known = await resolveBatch(pool, id)
        if (known.state === 'prepared') {
          throw new Failure(`This batch is not approved. Run: ${ownCommand(`payout approve ${known.batchId}`)}`)
        }
        const settled = await createPayoutSync({
          pool,
          clock: systemClock,
          drivers: payoutDriversOf(session.config),
          log: { warn: (details: object, text: string) => session.output.note(`${text}: ${errorText(details)}`) },
        }).settle(known.batchId)
        return { batch: (await findBatch(pool, known.batchId))!, settled }
      })
      if (settled.file !== null && file !== undefined) writeTransfers(file, settled.file)
      const { file: csv, ...counts } = settled
      const text =
        csv === null
          ? `Asked for ${counts.looked} payouts: ${counts.booked} booked, ${counts.mismatched} with another report than expected, ${counts.failed} without an answer.`
          : file === undefined
            ? csv.trimEnd()
            : `Wrote the transfers to ${file}.`
      session.output.result(
        { ...shownBatch(batch), ...counts, file: file ?? null, csv: file === undefined ? csv : null },
        text,
      )
      if (csv !== null) {
        session.output.note(
          `When the bank has made them: ${ownCommand(`payout settle ${batch.batchId} --paid all`)}, or --failed <reference> --reason <text>`,
        )
      }
      if (counts.failed > 0) throw new Failure('Some payouts could not be settled. Run the command again.')
    })
}

function writeTransfers(file: string, csv: string): void {
  try {
    // Names and account numbers of people.
    writeFileSync(file, csv, { flag: 'wx', mode: 0o600 })
  } catch (error) {
    throw new Failure(`Cannot write ${file}: ${systemErrorText(error)}. Run the command again with another file.`)
  }
}

async function bookAll(pool: Pool, { batchId }: PayoutBatch, references: readonly string[], failure: string | null) {
  const payouts = await payoutsOfBatch(pool, batchId)
  const isAll = references.length === 1 && references[0] === 'all'
  const chosen = isAll
    ? payouts.filter(({ state }) => state === 'sending')
    : references.map(reference => {
        const found = payouts.find(payout => payout.reference === reference.toUpperCase())
        if (found === undefined) throw new Failure(`This batch has no payout ${reference}. Nothing was changed.`)
        return found
      })
  const booked: { payout: Payout; verdict: string }[] = []
  for (const payout of chosen) {
    const verdict = await settleBankPayout(pool, null, payout.payoutId, failure)
    if (verdict === 'not_csv') throw new Failure(`The provider of ${payout.reference} reports it itself.`)
    if (verdict === 'not_sent') throw new Failure(`${payout.reference} was not sent: it is ${payout.state}.`)
    booked.push({ payout, verdict })
  }
  return booked
}

function cancel(): Command {
  return createCommand('cancel', 'Cancel the payouts of a batch that were not sent; they are payable again', [
    'payout cancel 00000000-0000-7000-8000-000000000001',
  ])
    .argument('<batch>', 'id of the batch', textArgument)
    .action(async (id: string, options) => {
      const session = createSession(options)
      const { batch, count } = await withDatabase(session, async pool => {
        const { batchId } = await resolveBatch(pool, id)
        const count = (await cancelPayouts(pool, null, batchId)) ?? 0
        return { batch: (await findBatch(pool, batchId))!, count }
      })
      session.output.result(
        { ...shownBatch(batch), cancelled: count },
        count === 0 ? 'All payouts of this batch were sent or cancelled before.' : `Cancelled ${counted(count)}.`,
      )
    })
}

function list(): Command {
  return createCommand('list', `List the newest ${LISTED} batches`, ['payout list', 'payout list --json']).action(
    async options => {
      const session = createSession(options)
      const batches = await withDatabase(session, pool => listBatches(pool, { limit: LISTED, after: null }))
      session.output.result(
        batches.map(shownBatch),
        table(
          ['prepared', 'driver', 'state', 'payouts', 'USD', 'paid', 'id'],
          batches.map(batch => [
            timeText(batch.preparedAt),
            batch.driver,
            batch.mismatches > 0n ? 'MISMATCH' : batch.state,
            String(batch.payouts),
            usdText(batch.amountNanos),
            usdText(batch.paidNanos),
            batch.batchId,
          ]),
          `There are no payouts. Make a batch with: ${ownCommand('payout prepare')}`,
        ),
      )
    },
  )
}

function show(): Command {
  return createCommand('show', 'Show a batch and its payouts', ['payout show 00000000-0000-7000-8000-000000000001'])
    .argument('<batch>', 'id of the batch', textArgument)
    .action(async (id: string, options) => {
      const session = createSession(options)
      const { batch, payouts } = await withDatabase(session, async pool => {
        const batch = await resolveBatch(pool, id)
        return { batch, payouts: await payoutsOfBatch(pool, batch.batchId) }
      })
      session.output.result(
        { ...shownBatch(batch), data: payouts.map(shownPayout) },
        table(
          ['reference', 'hoster', 'state', 'USD', 'paid', 'account', 'note'],
          payouts.map(payout => [
            payout.reference,
            payout.hosterName,
            payout.mismatch === null ? payout.state : 'MISMATCH',
            usdText(payout.amountNanos),
            usdText(payout.paidNanos),
            payout.destination,
            payout.mismatch ?? payout.failure ?? '-',
          ]),
          'This batch has no payouts.',
        ),
      )
    })
}

async function resolveBatch(pool: Pool, id: string): Promise<PayoutBatch> {
  const { rows } = await pool.query<{ id: string }>(
    'SELECT batch_id AS id FROM payout_batch WHERE batch_id::text = lower($1)',
    [id],
  )
  const found = rows[0] && (await findBatch(pool, rows[0].id))
  if (found === undefined) {
    throw new Failure(`There is no batch ${quoteForShell(id)}. List batches with: ${ownCommand('payout list')}`)
  }
  return found
}

function counted(payouts: number | bigint): string {
  return `${payouts} ${Number(payouts) === 1 ? 'payout' : 'payouts'}`
}

function errorText(details: object): string {
  const { err, ...rest } = details as { err?: Error }
  return [err?.message, JSON.stringify(rest)].filter(Boolean).join(' ')
}

function shownBatch(batch: PayoutBatch) {
  return {
    batch_id: batch.batchId,
    driver: batch.driver,
    state: batch.state,
    payouts: Number(batch.payouts),
    amount_usd: usdText(batch.amountNanos),
    paid_usd: usdText(batch.paidNanos),
    prepared_by: batch.preparedBy,
    prepared_at: batch.preparedAt.toISOString(),
    approved_by: batch.approvedBy,
    approved_at: batch.approvedAt?.toISOString() ?? null,
  }
}

function shownPayout(payout: Payout) {
  return {
    payout_id: payout.payoutId,
    hoster_id: payout.hosterId,
    name: payout.hosterName,
    state: payout.state,
    amount_usd: usdText(payout.amountNanos),
    paid_usd: usdText(payout.paidNanos),
    account: payout.destination,
    holder: payout.holder,
    reference: payout.reference,
    provider_ref: payout.providerRef,
    failure: payout.failure,
    mismatch: payout.mismatch,
  }
}
