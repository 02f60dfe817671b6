import { type AutoTable, autoFeatures, predictQuality, type QualityWeights } from '../../src/base/domain/auto-table.ts'

/** One request: its features, and the quality of each model's answer. */
export interface Example {
  readonly features: readonly number[]
  readonly quality: Readonly<Record<string, number>>
}

const ROUNDS = 400
const STEP = 2
/** Keeps weights of rare features small. */
const DECAY = 0.0005

/** Fits a logistic regression for each model, by gradient descent over all examples. The same examples give the same table. */
export function train(examples: readonly Example[]): AutoTable {
  const models = [...new Set(examples.flatMap(({ quality }) => Object.keys(quality)))].sort()
  return {
    models: Object.fromEntries(
      models.map(model => [
        model,
        fit(
          examples.filter(({ quality }) => model in quality),
          model,
        ),
      ]),
    ),
  }
}

function fit(examples: readonly Example[], model: string): QualityWeights {
  const weights = new Array<number>(autoFeatures.length).fill(0)
  let bias = 0
  for (let round = 0; round < ROUNDS; round++) {
    const slopes = new Array<number>(weights.length).fill(0)
    let biasSlope = 0
    for (const { features, quality } of examples) {
      const error = predictQuality({ bias, weights }, features) - quality[model]!
      biasSlope += error
      for (let index = 0; index < slopes.length; index++) slopes[index]! += error * features[index]!
    }
    bias -= (STEP * biasSlope) / examples.length
    for (let index = 0; index < weights.length; index++) {
      weights[index]! -= STEP * (slopes[index]! / examples.length + DECAY * weights[index]!)
    }
  }
  return { bias: rounded(bias), weights: weights.map(rounded) }
}

const rounded = (value: number) => Math.round(value * 10_000) / 10_000

/** Returns the text of the file for `routing.auto.model_file`. */
export function tableFile({ models }: AutoTable): string {
  return `${JSON.stringify({ version: 1, features: autoFeatures, models }, null, 2)}\n`
}
