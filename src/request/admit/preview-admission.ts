import type { Caller } from '../../base/domain/caller.ts'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { ApiError } from '../../base/domain/errors.ts'
import type { Exclusion } from '../../base/domain/handoff.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { type AdmitDeps, countRequest, type HoldRequest, holdFor, isLong, measured, pricedFor } from './admit.ts'
import { candidatesFor, eligible } from './eligible.ts'
import { explainExclusions } from './explain-exclusions.ts'

export interface AdmissionPreview {
  readonly models: readonly string[]
  /** In the order of the catalog. */
  readonly candidates: readonly Offer[]
  readonly eligible: readonly Offer[]
  readonly excluded: readonly Exclusion[]
  /** The hold that `admit` would request, or the refusal when no offer may serve the request. */
  readonly verdict: HoldRequest | ApiError
  /** The job, with the length of its prompt if that is long. */
  readonly job: ChatJob
}

/**
 * Returns what `admit` would find, without holding money; the balance is not checked. The request counts
 * against the windows like one that runs, since unlimited quotes would let a client read all prices for free.
 * Throws 403 `model_not_allowed`, 404 `model_not_found`, 429 or 503.
 */
export async function previewAdmission(
  deps: AdmitDeps,
  caller: Caller,
  asked: ChatJob,
  requestId: string,
): Promise<AdmissionPreview> {
  await countRequest(deps, caller, asked, requestId)
  const job = isLong(asked) ? await measured(deps, caller, asked, requestId) : asked
  const { models, offers: candidates } = candidatesFor(
    pricedFor(deps.catalog(), caller),
    job,
    caller.access.allowedModels,
  )
  const health = deps.health.of(caller.customerId)
  const choice = eligible(candidates, job, health)
  const verdict =
    choice.eligible.length === 0
      ? explainExclusions(choice.excluded, candidates, job)
      : holdFor(choice.eligible, job, deps.defaultMaxTokens)
  return { models, candidates, ...choice, verdict, job }
}
