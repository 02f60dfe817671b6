import { count, refuseExhausted } from '../../admit/admit.ts'
import { type CompleteDeps, complete } from '../../chat/complete.ts'
import { completeOnce, type SettlementWatch } from '../../chat/complete-once.ts'
import { createClaims } from '../../chat/idempotency/claims.ts'
import { createPostgresClaimStore } from '../../chat/idempotency/postgres-claim-store.ts'
import { standardTimeouts } from '../../domain/endpoint-defaults.ts'
import type { ChatEndpointDeps } from '../../http/endpoints/chat-completions.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Money } from './money.ts'

interface IdempotencyParts {
  readonly chat: CompleteDeps
  readonly database: Database
  readonly money: Money
}

/** Returns the function that serves requests with an Idempotency-Key. */
export function startIdempotency(
  { offers, masterKey, scheduler, started }: ComposeContext,
  { chat, database, money: { store, node, nodeShard } }: IdempotencyParts,
): ChatEndpointDeps['completeOnce'] {
  // Endpoints of hosters have the standard timeouts.
  const longestAnswerMs = Math.max(standardTimeouts.totalMs, ...offers.map(({ endpoint }) => endpoint.timeouts.totalMs))
  const claims = createClaims({
    // A slow client can double the time that an answer takes.
    store: createPostgresClaimStore(database.lookups, 2 * longestAnswerMs),
    ledgerStore: store,
    nodeShard,
    node,
    scheduler,
    masterKey,
  })
  started.defer(() => claims.stop())
  return (request, signal) => {
    const { caller, job, requestId } = request
    return completeOnce(
      {
        claims,
        complete: watch => complete(withWatch(chat, watch), caller, job, requestId, signal),
        refuseExhausted: () => refuseExhausted(chat.admit, caller, job, requestId),
        count: () => count(chat.admit, caller, job, requestId),
        onFault: chat.onFault,
      },
      request,
    )
  }
}

/** Returns `chat` with `watch` as another listener of its settlements. */
function withWatch(chat: CompleteDeps, watch: SettlementWatch): CompleteDeps {
  return {
    ...chat,
    settle: {
      ...chat.settle,
      onSettled: settlement => {
        chat.settle.onSettled?.(settlement)
        watch.onSettled(settlement)
      },
      onOutcomeUnknown: watch.onOutcomeUnknown,
    },
  }
}
