import { type AutoSettings, predictQuality, UNKNOWN_QUALITY } from '../../../base/domain/auto-table.ts'
import type { ServiceTier } from '../../../base/domain/chat-job.ts'
import type { AutoNote, AutoReason } from '../../../base/domain/routing-note.ts'
import { drawOne, elementAt } from '../../../base/runtime/collections.ts'
import type { Rank } from '../rank.ts'
import type { ChooseModels } from '../route.ts'
import { type RequestFeatures, readFeatures } from './read-features.ts'

/**
 * Creates the choice of `auto`: it predicts the quality of each model's answer, from a trained table or the operator's
 * figures, and trades it for the price or the speed that the service tier asks for. A conversation keeps its model.
 * Returns null when there are no figures.
 *
 * @param onFault receives an error of the choice itself; the offers are then ranked as one pool
 */
export function createModelChoice(settings: AutoSettings, onFault: (fault: unknown) => void): ChooseModels | undefined {
  if (settings.table === null && settings.quality.size === 0) return undefined
  return (job, pool, stickyModelId, random) => {
    try {
      const features = readFeatures(job)
      const options = optionsOf(pool, features, settings)
      return options.length === 0
        ? null
        : choose(options, job.constraints.serviceTier, features, { stickyModelId, settings, random })
    } catch (fault) {
      onFault(fault)
      return null
    }
  }
}

interface Option {
  readonly modelId: string
  readonly ranks: readonly Rank[]
  readonly quality: number
  /** At its cheapest offer. */
  readonly costPicos: bigint
  /** At its fastest offer; null when unknown. */
  readonly predictedMs: number | null
}

function optionsOf(pool: readonly Rank[], features: RequestFeatures, settings: AutoSettings): readonly Option[] {
  return [...Map.groupBy(pool, ({ offer }) => offer.modelId)].map(([modelId, ranks]) => ({
    modelId,
    ranks,
    quality: qualityOf(modelId, features, settings),
    costPicos: ranks.map(({ costPicos }) => costPicos).reduce((a, b) => (b < a ? b : a)),
    predictedMs: ranks
      .map(({ predictedMs }) => predictedMs)
      .reduce((a, b) => (a === null || (b !== null && b < a) ? b : a)),
  }))
}

/** The operator's figure for the class of the request comes first: the operator knows more than the table. */
function qualityOf(modelId: string, { taskClass, values }: RequestFeatures, { table, quality }: AutoSettings): number {
  const figures = quality.get(modelId)
  const weights = table !== null && Object.hasOwn(table.models, modelId) ? table.models[modelId] : undefined
  return figures?.[taskClass] ?? (weights && predictQuality(weights, values)) ?? figures?.general ?? UNKNOWN_QUALITY
}

/** Scores are compared within the models that reach the floor, and these come before the others. */
interface Scored extends Option {
  readonly reachesFloor: boolean
  readonly score: number
}

function choose(
  options: readonly Option[],
  tier: ServiceTier,
  { taskClass }: RequestFeatures,
  deps: { readonly stickyModelId: string | null; readonly settings: AutoSettings; readonly random: () => number },
) {
  const { stickyModelId, settings, random } = deps
  const floor = tier === 'balanced' ? null : settings.qualityFloor
  const scored = options.map((option): Scored => {
    const reachesFloor = floor === null || option.quality >= floor
    return { ...option, reachesFloor, score: reachesFloor ? score[tier](option, options, settings) : option.quality }
  })
  const ordered = scored.toSorted(
    (a, b) => Number(b.reachesFloor) - Number(a.reachesFloor) || b.score - a.score || compare(a, b),
  )
  const [first, reason] = firstOf(ordered, tier, stickyModelId, settings, random)
  const order = [first, ...ordered.filter(option => option !== first)]
  const note: AutoNote = {
    taskClass,
    reason,
    qualityFloor: floor,
    models: order.slice(0, MODELS_NOTED).map(({ modelId, quality, costPicos, score }) => ({
      modelId,
      quality: round(quality),
      costPicos: costPicos.toString(),
      score: round(score),
    })),
  }
  return { groups: order.map(({ ranks }) => ranks), note }
}

function firstOf(
  ordered: readonly Scored[],
  tier: ServiceTier,
  stickyModelId: string | null,
  { exploredPart }: AutoSettings,
  random: () => number,
): [Scored, AutoReason] {
  const best = elementAt(ordered, 0)
  const sticky = stickyModelId === null ? undefined : ordered.find(({ modelId }) => modelId === stickyModelId)
  // A changed style, and a prompt cache that is lost, cost more than a model that is a little better.
  if (sticky) return [sticky, 'conversation']
  const others = ordered.filter(option => option !== best && option.reachesFloor)
  if (exploredPart > 0 && others.length > 0 && random() < exploredPart) return [drawOne(others, random), 'explored']
  return [best, best.reachesFloor ? reasons[tier] : 'best_quality']
}

const reasons = { cheapest: 'lowest_cost', balanced: 'best_balance', fastest: 'fastest' } as const satisfies Record<
  ServiceTier,
  AutoReason
>

const score: Record<ServiceTier, (option: Option, all: readonly Option[], settings: AutoSettings) => number> = {
  /** Between -1 and 0: the negative part of the highest cost. */
  cheapest: (option, all) => -costPart(option, all),
  balanced: (option, all, { costWeight }) => option.quality - costWeight * costPart(option, all),
  /** The negative part of the longest time. An unmeasured model counts as typical. */
  fastest: (option, all) => {
    const known = all.flatMap(({ predictedMs }) => predictedMs ?? []).sort((a, b) => a - b)
    const typicalMs = known[known.length >> 1] ?? 1
    return -(option.predictedMs ?? typicalMs) / Math.max(1, known.at(-1) ?? 1)
  },
}

function costPart({ costPicos }: Option, all: readonly Option[]): number {
  const highest = Math.max(...all.map(option => Number(option.costPicos)))
  return highest === 0 ? 0 : Number(costPicos) / highest
}

/** Ties: the cheaper model, then by name. */
function compare(a: Option, b: Option): number {
  if (a.costPicos !== b.costPicos) return a.costPicos < b.costPicos ? -1 : 1
  return a.modelId < b.modelId ? -1 : 1
}

const MODELS_NOTED = 8
const round = (value: number) => Math.round(value * 10_000) / 10_000
