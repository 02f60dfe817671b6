import { AUTO_MODEL, type ChatJob } from '../../../base/domain/chat-job.ts'
import { modelNotAllowed, unknownModel } from '../../../base/domain/errors.ts'
import { type Offer, serves } from '../../../base/domain/offer.ts'
import type { Catalog } from './catalog.ts'

export interface Candidates {
  /**
   * The models to try, in this order; `auto` stands for every model not named here, as one pool. Becomes part
   * of the ticket.
   */
  readonly models: readonly string[]
  /** The offers of these models in the same order, each once. */
  readonly offers: readonly Offer[]
}

/**
 * Returns every offer of the models that a job names, before constraints are applied. Throws ApiError
 * `model_not_found` (param `model`) when the catalog lacks the requested model, even if there are fallbacks:
 * a misspelt model must not be silently replaced. Unknown fallbacks are skipped, since a client's list may be
 * older than the catalog. `auto` picks the demo model only if there is no other model.
 *
 * @param allowedModels the models that the key may use, null for all. Another model is refused with 403
 *   `model_not_allowed`, other fallbacks are skipped, and `auto` picks among the allowed models
 */
export function candidatesFor(
  catalog: Catalog,
  job: ChatJob,
  allowedModels: ReadonlySet<string> | null = null,
): Candidates {
  const isAllowed = (id: string) => allowedModels === null || allowedModels.has(id)
  const asked = job.model
  // A model without a connected agent exists, but has no offer now.
  const isKnown =
    asked === AUTO_MODEL ? catalog.offers.length > 0 : catalog.models.has(asked) || catalog.absent.has(asked)
  if (!isKnown) throw unknownModel(asked)
  if (asked !== AUTO_MODEL && !isAllowed(asked)) throw modelNotAllowed(asked)
  // Most requests name one model.
  if (asked !== AUTO_MODEL && job.constraints.fallbackModels.length === 0) {
    return { models: [asked], offers: catalog.offersOf(asked) }
  }
  const models = [...new Set([asked, ...job.constraints.fallbackModels])].filter(
    id => id === AUTO_MODEL || (catalog.models.has(id) && isAllowed(id)),
  )
  const named = new Set(models)
  const offers = models.flatMap(id =>
    id === AUTO_MODEL
      ? autoPool(catalog.offers.filter(offer => isAllowed(offer.modelId) && serves(offer, job.task))).filter(
          ({ modelId }) => !named.has(modelId),
        )
      : catalog.offersOf(id),
  )
  return { models, offers }
}

function autoPool(offers: readonly Offer[]): readonly Offer[] {
  const real = offers.filter(offer => !offer.endpoint.demo)
  return real.length > 0 ? real : offers
}
