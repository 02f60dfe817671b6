import { z } from 'zod'
import type { PayoutService } from '../../../operator/payouts.ts'
import { keyOfCursor } from '../../../wire/api/cursor.ts'
import { parseNothing } from '../../../wire/api/operator/customer-changes.ts'
import {
  approvedBatch,
  clawedBack,
  hosterFunds,
  hosterMoney,
  parseClawback,
  parseDecision,
  parseOutcome,
  parsePrepare,
  parseReviewDecision,
  payoutBatch,
  payoutBatches,
  preparedBatch,
  promotionReviews,
  settledBatch,
} from '../../../wire/api/operator/payouts.ts'
import { payoutsCursor, payoutsQuery } from '../../../wire/api/payouts.ts'
import { readQuery } from '../../../wire/api/reports.ts'
import type { Endpoint, EndpointContext } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** Payouts of all hosters. */
export function operatorPayoutEndpoints(
  deps: OperatorEndpointDeps & { readonly payoutService: PayoutService },
): Endpoint[] {
  const { payoutService: service } = deps

  /** Money moves: the session must be confirmed. */
  function action<T>(
    path: string,
    summary: string,
    schema: z.ZodType,
    parse: (body: Buffer) => T,
    handle: (context: EndpointContext, order: T) => unknown,
  ): Endpoint {
    return operatorEndpoint(
      'POST',
      path,
      { scope: 'money', summary, schema, needsConfirmation: true },
      async context => {
        return handle(context, parse(await bodyOf(deps, context.request)))
      },
    )
  }
  const done = z.object({ done: z.literal(true) })
  const batchOf = ({ request }: EndpointContext) => idOf(request, 'batch_id', 'not_found')
  const hosterOf = ({ request }: EndpointContext) => idOf(request, 'hoster_id', 'not_found')
  const freeze =
    (isFrozen: boolean) =>
    async (context: EndpointContext, { reason }: { reason: string }) => {
      await service.freeze(actorOf(deps, context), { hosterId: hosterOf(context), isFrozen, reason })
      return { done: true }
    }

  return [
    operatorEndpoint('GET', 'earnings', { scope: 'read', summary: 'List what hosters have', schema: hosterFunds }, () =>
      service.funds(),
    ),
    operatorEndpoint(
      'GET',
      'payouts',
      { scope: 'read', summary: 'List batches of payouts', schema: payoutBatches, query: payoutsQuery },
      ({ request }) => {
        const { limit, cursor } = readQuery(payoutsQuery, request.query)
        return service.list(limit, keyOfCursor(cursor, payoutsCursor))
      },
    ),
    operatorEndpoint(
      'GET',
      'payouts/:batch_id',
      { scope: 'read', summary: 'Show a batch', schema: payoutBatch },
      context => service.one(batchOf(context)),
    ),
    action('payouts', 'Prepare a batch of payouts', preparedBatch, parsePrepare, (context, { driver }) =>
      service.prepare(actorOf(deps, context), driver),
    ),
    action('payouts/:batch_id/approve', 'Approve a batch', approvedBatch, parseNothing, context =>
      service.approve(actorOf(deps, context), batchOf(context)),
    ),
    action('payouts/:batch_id/settle', 'Pay an approved batch', settledBatch, parseNothing, context =>
      service.settle(actorOf(deps, context), batchOf(context)),
    ),
    action('payouts/:batch_id/cancel', 'Cancel what was not sent', payoutBatch, parseNothing, context =>
      service.cancel(actorOf(deps, context), batchOf(context)),
    ),
    operatorEndpoint(
      'GET',
      'promotion-reviews',
      { scope: 'read', summary: 'List promotional earnings of related customers', schema: promotionReviews },
      () => service.reviews(),
    ),
    action(
      'promotion-reviews/:review_id',
      'Release or withhold promotional earnings',
      promotionReviews,
      parseReviewDecision,
      (context, decision) =>
        service.decide(actorOf(deps, context), idOf(context.request, 'review_id', 'not_found'), decision),
    ),
    action(
      'transfers/:payout_id',
      'Book what a bank made of a transfer',
      payoutBatch,
      parseOutcome,
      (context, { failure }) =>
        service.book(actorOf(deps, context), idOf(context.request, 'payout_id', 'not_found'), failure),
    ),
    operatorEndpoint(
      'GET',
      'hosters/:hoster_id/earnings',
      { scope: 'read', summary: 'Show what a hoster has, and claw-backs', schema: hosterMoney },
      context => service.money(hosterOf(context)),
    ),
    action('hosters/:hoster_id/freeze', 'Freeze payouts of a hoster', done, parseDecision, freeze(true)),
    action('hosters/:hoster_id/release', 'Pay a frozen hoster again', done, parseDecision, freeze(false)),
    action('hosters/:hoster_id/clawbacks', 'Take earnings back', clawedBack, parseClawback, (context, order) =>
      service.clawBack(actorOf(deps, context), hosterOf(context), order),
    ),
    action('clawbacks/:clawback_id/return', 'Reverse a claw-back', done, parseDecision, async (context, { reason }) => {
      const clawbackId = idOf(context.request, 'clawback_id', 'not_found')
      await service.returnClawback(actorOf(deps, context), clawbackId, reason)
      return { done: true }
    }),
  ]
}
