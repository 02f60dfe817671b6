/** The classes of requests that `auto` distinguishes. */
export const taskClasses = ['general', 'code', 'math', 'vision', 'tools', 'long'] as const
export type TaskClass = (typeof taskClasses)[number]

/** The features that `auto` reads from a request, each about 0 to 1, in the order of the weights in a trained table. */
export const autoFeatures = [
  'length',
  'code',
  'math',
  'digits',
  'reasoning',
  'non_ascii',
  'cjk',
  'tools',
  'images',
  'json_schema',
  'turns',
  'asked_output',
] as const

/** A trained model: for each model id, the weights of a logistic regression of the quality of its answers. */
export interface AutoTable {
  readonly models: Readonly<Record<string, QualityWeights>>
}

export interface QualityWeights {
  readonly bias: number
  /** One for each of `autoFeatures`. */
  readonly weights: readonly number[]
}

/** How `auto` chooses. */
export interface AutoSettings {
  readonly table: AutoTable | null
  /** The operator's figures, 0 to 1, by model id. Models without a figure for a class use that of `general`. */
  readonly quality: ReadonlyMap<string, Partial<Record<TaskClass, number>>>
  /** The quality that `cheapest` and `fastest` ask for, 0 to 1. */
  readonly qualityFloor: number
  /** How much quality `balanced` gives up for the whole price of the most expensive model, 0 to 1. */
  readonly costWeight: number
  /** The part of the requests that try another model. */
  readonly exploredPart: number
}

/** A model without any figure counts as having this quality. */
export const UNKNOWN_QUALITY = 0.5

/** Returns the predicted quality of an answer, 0 to 1. */
export function predictQuality({ bias, weights }: QualityWeights, features: ArrayLike<number>): number {
  let sum = bias
  for (let index = 0; index < weights.length; index++) sum += weights[index]! * features[index]!
  return 1 / (1 + Math.exp(-sum))
}
