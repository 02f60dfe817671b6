import type { LearnedRatio } from '../../src/market/trust/learn-ratio.ts'
import type { Random } from '../random.ts'
import type { Attack } from './behaviour.ts'
import type { SimulatedHoster } from './simulated-hoster.ts'

/** What one market is like. The figures are drawn for each. */
export interface World {
  readonly random: Random
  readonly attack: Attack
  readonly hosters: SimulatedHoster[]
  /** Reported tokens of an honest server for one that the gateway counts, and the noise of ln of it. */
  readonly ratio: { readonly input: number; readonly output: number }
  readonly noise: number
  /** The part of the requests that are at temperature 0. */
  readonly atZero: number
  /** See `AnsweringModel`. */
  readonly runNoise: number
  readonly cheapNoise: number
  learned: LearnedRatio
}
