import type { LearnedRatio } from '../../src/trust/learn-ratio.ts'
import type { Random } from '../random.ts'
import type { Attack } from './behaviour.ts'
import type { SimulatedHoster } from './simulated-hoster.ts'

/** What one market is like. The figures are drawn for each. */
export interface World {
  readonly random: Random
  readonly attack: Attack
  readonly hosters: SimulatedHoster[]
  /** The canaries that a local server has answered until now. */
  readonly reference: { asked: number; failed: number }
  /** Reported tokens of an honest server for one that the gateway counts, and the noise of ln of it. */
  readonly ratio: { readonly input: number; readonly output: number }
  readonly noise: number
  /** How often honest servers and the cheap model fail a canary. */
  readonly failure: number
  readonly cheapFailure: number
  /** See `AnsweringModel`. */
  readonly runNoise: number
  readonly cheapNoise: number
  learned: LearnedRatio
}
