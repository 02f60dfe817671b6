import { existsSync, writeFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import type { Pool } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { payoutLabels } from '../base/domain/money-drivers.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { systemErrorText } from '../base/runtime/error-message.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { systemClock } from '../base/runtime/scheduler.ts'
import { settleBankPayout } from '../money/payouts/payout-batches.ts'
import { createPayoutSync } from '../money/payouts/payout-sync.ts'
import { findBatch, type Payout, type PayoutBatch, payoutsOfBatch } from '../money/payouts/read-payouts.ts'
import { textArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { payoutCount, resolveBatch, shownBatch } from './payout-batch.ts'
import { payoutDriversOf } from './payout-drivers-of.ts'
import { withDatabase } from './with-database.ts'

/** `switchyard payout settle`: sends the payouts of a batch, or books the results of its bank transfers. */
export function settlePayouts(): Command {
  return createCommand(
    'settle',
    'Pay an approved batch, or book the results of its bank transfers; repeats pay nothing twice',
    [
      'payout settle 00000000-0000-7000-8000-000000000001 --file november.csv',
      'payout settle 00000000-0000-7000-8000-000000000001 --paid PO-9F3A12BC77D1',
      'payout settle 00000000-0000-7000-8000-000000000001 --failed PO-9F3A12BC77D1 --reason "account closed"',
    ],
  )
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
          `Booked ${payoutCount(changed)} as ${options.failed === undefined ? 'paid' : 'failed'}; booked before: ${booked.length - changed}.`,
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
        const sync = createPayoutSync({
          pool,
          clock: systemClock,
          drivers: payoutDriversOf(session.config),
          rules: session.config.payouts,
          log: { warn: (details: object, text: string) => session.output.note(`${text}: ${errorText(details)}`) },
        })
        if (known.state === 'approved' && !sync.maySettle(known))
          throw new Failure(sayRefusal('refusal.payouts_not_set_up', { driver: payoutLabels[known.driver] }).text)
        const settled = await sync.settle(known.batchId)
        const { file: _, ...detail } = settled
        await noteAction(pool, { ...commandLine, action: 'payout.settled', subject: known.batchId, detail })
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

function errorText(details: object): string {
  const { err, ...rest } = details as { err?: Error }
  return [err?.message, JSON.stringify(rest)].filter(Boolean).join(' ')
}
