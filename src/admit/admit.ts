import type { Caller } from '../domain/caller.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { Clock } from '../domain/clock.ts'
import { ApiError } from '../domain/errors.ts'
import type { Ticket } from '../domain/handoff.ts'
import type { Admission, Ledger } from '../ledger/ledger.ts'
import type { Catalog } from '../market/catalog.ts'
import type { WindowView } from '../quota/window-view.ts'
import { candidates } from './candidates.ts'
import { eligible, explainExclusions, type MarketView } from './eligible.ts'
import { holdFor, maxTokensFor, type HoldDefaults } from './hold.ts'
import { refusal } from './refusal.ts'

export interface AdmitDeps {
  readonly catalog: () => Catalog
  readonly market: MarketView
  readonly ledger: Pick<Ledger, 'admit'>
  readonly windows: Pick<WindowView, 'remember'>
  readonly clock: Clock
  readonly holdDefaults: HoldDefaults
}

/**
 * May this request run? Finds its eligible offers, counts it against the windows and holds its worst case, in one round trip.
 * Throws 404 `model_not_found`, 500 `no_eligible_offer`, 429, 402 or 503; from the returned ticket on, money is held and the
 * ticket has to be settled.
 */
export async function admit(deps: AdmitDeps, caller: Caller, job: ChatJob, requestId: string): Promise<Ticket> {
  const startedAtEpochMs = deps.clock.epochMs()
  const startedMonotonicMs = deps.clock.monotonicMs()
  const who = { requestId, customerId: caller.customerId, keyId: caller.keyId, modelId: job.model, limits: caller.limits }

  const asked = candidates(deps.catalog(), job)
  if (asked.offers.length === 0) {
    await takeWindows(deps, { ...who, hold: null })
    throw new ApiError('model_not_found', {
      param: 'model',
      message: `The model \`${job.model}\` does not exist or you do not have access to it. GET /v1/models lists the models.`,
    })
  }
  const choice = eligible(asked.offers, job, deps.market)
  if (choice.eligible.length === 0) {
    await takeWindows(deps, { ...who, hold: null })
    throw new ApiError('no_eligible_offer', { message: explainExclusions(choice.excluded) })
  }

  const worstCase = holdFor(choice.eligible, job, deps.holdDefaults)
  const holdNanos = await takeWindows(deps, {
    ...who,
    hold: { wantNanos: worstCase.wantNanos, floorNanos: worstCase.floorNanos },
  }, job)
  return {
    requestId,
    caller,
    startedAtEpochMs,
    startedMonotonicMs,
    models: asked.models,
    eligible: choice.eligible,
    excluded: choice.excluded,
    holdNanos,
    maxTokens: maxTokensFor(choice.eligible, job, holdNanos, deps.holdDefaults),
  }
}

/** Counts the request and takes its hold (0 without one); throws what refuses it. */
async function takeWindows(deps: AdmitDeps, admission: Admission, job?: ChatJob): Promise<bigint> {
  const result = await deps.ledger.admit(admission)
  deps.windows.remember(admission.customerId, result.windows)
  switch (result.kind) {
    case 'granted':
      return result.heldNanos
    case 'counted':
      return 0n
    case 'refused':
      throw refusal(result, admission, job, deps.clock.epochMs())
  }
}

