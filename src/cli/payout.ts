import { type Command, Option } from 'commander'
import { usdText } from '../base/domain/money.ts'
import { payoutDriverNames, payoutProviderNames } from '../base/domain/money-drivers.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { systemClock } from '../base/runtime/scheduler.ts'
import {
  approvePayouts,
  cancelPayouts,
  decidePromotionReview,
  type PreparedHoster,
  type PrepareVerdict,
  preparePayouts,
} from '../money/payouts/payout-batches.ts'
import { listPromotionReviews } from '../money/payouts/promotions.ts'
import { findBatch, listBatches, type Payout, payoutsOfBatch } from '../money/payouts/read-payouts.ts'
import type { Config } from '../start/config/config.ts'
import { textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { timeText } from './output.ts'
import { moveEarningsCommand, payoutAccount } from './payout-account.ts'
import { payoutCount, resolveBatch, shownBatch } from './payout-batch.ts'
import { payoutClawBackCommands } from './payout-claw-back.ts'
import { payoutDriverOf } from './payout-drivers-of.ts'
import { payoutFreezeCommands } from './payout-freeze.ts'
import { settlePayouts } from './payout-settle.ts'
import { payoutStatement } from './payout-statement.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function payoutCommands(): Command {
  return createCommandGroup('payout', 'Pay hosters what they earned', [
    prepare(),
    approve(),
    settlePayouts(),
    cancel(),
    list(),
    show(),
    review(),
    payoutAccount(),
    payoutStatement(),
    moveEarningsCommand(),
    ...payoutFreezeCommands(),
    ...payoutClawBackCommands(),
  ])
}

const LISTED = 100

function prepare(): Command {
  return createCommand('prepare', 'Make a batch of what hosters are owed past the hold period', [
    'payout prepare',
    `payout prepare --driver ${payoutProviderNames[0]} --json`,
  ])
    .addOption(new Option('--driver <name>', 'how to pay').choices(payoutDriverNames).default('csv'))
    .action(async options => {
      const session = createSession(options)
      const driver = payoutDriverOf(session.config, options.driver)
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
            resultText(each, session.config.payouts),
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

function resultText({ verdict, payableNanos }: PreparedHoster, { minNanos, holdDays }: Config['payouts']): string {
  if (verdict !== 'below_minimum') return verdictTexts[verdict]
  if (payableNanos < 0n) return 'owes this: more was taken back than it had'
  if (payableNanos === 0n) return `its earnings are in the hold period of ${holdDays} days`
  return `below the minimum of ${usdText(minNanos)}`
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
      if (verdict === 'undecided') {
        throw new Failure(
          `Promotional earnings in this batch wait for a decision: see ${ownCommand('payout review')}. Nothing was changed.`,
        )
      }
      if (verdict === 'second_operator') {
        throw new Failure(
          'One operator may prepare and approve at most 1,000 USD in 24 hours. Let another operator approve this batch in the console. Nothing was changed.',
        )
      }
      session.output.result(
        { ...shownBatch(batch), approved: verdict === 'approved' },
        verdict === 'approved'
          ? `Approved ${payoutCount(batch.payouts)} of ${usdText(batch.amountNanos)} USD. Next: ${ownCommand(`payout settle ${batch.batchId}`)}`
          : 'This batch was approved before. Nothing was changed.',
      )
    })
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
        count === 0 ? 'All payouts of this batch were sent or cancelled before.' : `Cancelled ${payoutCount(count)}.`,
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

function review(): Command {
  return createCommand('review', 'List promotional earnings of customers related to the hoster, or decide on them', [
    'payout review',
    'payout review 00000000-0000-4000-8000-000000000001 --release "members of a fair"',
    'payout review 00000000-0000-4000-8000-000000000001 --withhold "own accounts"',
  ])
    .argument('[review]', 'id of the review to decide', textArgument)
    .addOption(new Option('--release <reason>', 'let them be paid').argParser(textArgument))
    .addOption(
      new Option('--withhold <reason>', 'give them back to the promotion account')
        .argParser(textArgument)
        .conflicts('release'),
    )
    .action(async (id: string | undefined, options) => {
      const session = createSession(options)
      const reason = (options.release ?? options.withhold) as string | undefined
      if ((id === undefined) !== (reason === undefined)) {
        throw new UsageError('A decision needs the id of a review, and --release or --withhold.')
      }
      const reviews = await withDatabase(session, async pool => {
        const known = await listPromotionReviews(pool, null)
        if (id === undefined || reason === undefined) return known
        const decision = { reviewId: id, isReleased: options.release !== undefined, reason }
        if (!known.some(each => each.reviewId === id) || !(await decidePromotionReview(pool, null, decision))) {
          throw new Failure('There is no such review, or it was decided before. Nothing was changed.')
        }
        return listPromotionReviews(pool, null)
      })
      session.output.result(
        reviews.map(each => ({
          review_id: each.reviewId,
          hoster_id: each.hosterId,
          name: each.hosterName,
          state: each.state,
          share_usd: usdText(each.shareNanos),
          evidence: each.evidence,
          reason: each.reason,
        })),
        table(
          ['hoster', 'state', 'USD', 'evidence', 'reason', 'id'],
          reviews.map(each => [
            each.hosterName,
            each.state,
            usdText(each.shareNanos),
            each.evidence.map(({ email, evidence }) => `${email ?? '-'}: ${evidence}`).join(', '),
            each.reason ?? '-',
            each.reviewId,
          ]),
          'No promotional earnings come from related customers.',
        ),
      )
    })
}

function shownPayout(payout: Payout) {
  return {
    payout_id: payout.payoutId,
    hoster_id: payout.hosterId,
    name: payout.hosterName,
    state: payout.state,
    amount_usd: usdText(payout.amountNanos),
    paid_usd: usdText(payout.paidNanos),
    promotion_usd: usdText(payout.promotionNanos),
    account: payout.destination,
    holder: payout.holder,
    reference: payout.reference,
    provider_ref: payout.providerRef,
    failure: payout.failure,
    mismatch: payout.mismatch,
  }
}
