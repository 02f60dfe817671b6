import { standardTimeouts } from '../../base/domain/endpoint-defaults.ts'
import type { GenerationDeps } from '../../http/endpoints/generation-endpoint.ts'
import { countRequest, refuseExhausted } from '../../request/admit/admit.ts'
import { type CompleteDeps, complete } from '../../request/chat/complete.ts'
import { type CompleteOnceDeps, completeOnce } from '../../request/chat/complete-once.ts'
import { createClaims } from '../../request/chat/idempotency/claims.ts'
import { createPostgresClaimStore } from '../../request/chat/idempotency/postgres-claim-store.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Money } from './money.ts'
import type { Supply } from './supply.ts'

interface IdempotencyParts {
  readonly chat: CompleteDeps
  readonly database: Database
  readonly money: Money
  readonly supply: Supply
}

/** Returns the function that serves requests with an Idempotency-Key. */
export function startIdempotency(
  { log, masterKeys, scheduler, started }: ComposeContext,
  { chat, database, money: { store, node, nodeShard }, supply: { catalog } }: IdempotencyParts,
): GenerationDeps['completeOnce'] {
  // Endpoints of hosters have the standard timeouts.
  let longestAnswerMs = standardTimeouts.totalMs
  // It never falls: requests to a server that is gone still run.
  catalog.onOwnOffers(offers => {
    longestAnswerMs = Math.max(longestAnswerMs, ...offers.map(({ endpoint }) => endpoint.timeouts.totalMs))
  })
  const claims = createClaims({
    // A slow client can double the time that an answer takes.
    store: createPostgresClaimStore(database.lookups, () => 2 * longestAnswerMs),
    ledgerStore: store,
    nodeShard,
    node,
    scheduler,
    masterKeys,
    log,
  })
  started.defer(() => claims.stop())
  const deps: CompleteOnceDeps = {
    claims,
    complete: (request, events) => complete(chat, request, events),
    refuseExhausted: ({ caller, job, requestId }) => refuseExhausted(chat.admit, caller, job, requestId),
    count: ({ caller, job, requestId }) => countRequest(chat.admit, caller, job, requestId),
    onFault: chat.onFault,
  }
  return (request, events) => completeOnce(deps, request, events)
}
