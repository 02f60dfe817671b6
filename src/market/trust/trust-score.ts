import { DAY_MS } from '../../base/domain/durations.ts'
import { TRUSTED_ABOVE } from '../../base/domain/offer.ts'
import { type Said, sentencesOf } from '../../base/domain/said.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import { type DecayedCounts, effectiveSample, goodRate, lowerBound } from './decayed-counts.ts'
import { trustSentences } from './trust-sentences.ts'

const say = sentencesOf(trustSentences)

/** How well a hoster is known. It limits the score. */
export const standings = ['unverified', 'verified', 'contract'] as const
export type Standing = (typeof standings)[number]

const caps: Readonly<Record<Standing, number>> = { unverified: 0.7, verified: 0.9, contract: 1 }

/** The highest score of a standing. */
export const capOf = (standing: Standing) => caps[standing]

export const gateLimits = { requests: 200, audits: 70, ageDays: 7, honestyBound: 0.9 } as const

export interface TrustFacts {
  /** Requests without a fault of the hoster, weighted by spend. */
  readonly reliability: DecayedCounts
  /** Audits passed. */
  readonly honesty: DecayedCounts
  /** Answers that obey the protocol. */
  readonly conformance: DecayedCounts
  /** Requests and audits ever counted, without decay. */
  readonly requests: number
  readonly audits: number
  readonly ageMs: number
  readonly standing: Standing
  /** A cheat is proven and not overruled. */
  readonly isQuarantined: boolean
}

export interface TrustComponent {
  readonly name: 'reliability' | 'honesty' | 'conformance'
  readonly exponent: number
  /** The share of good results, bad ones counted twice. */
  readonly rate: number
  readonly sample: number
  /** The lower 95% bound, which counts. */
  readonly bound: number
}

export interface Gate {
  readonly name: keyof typeof gateLimits
  readonly has: number
  readonly needs: number
  readonly isPassed: boolean
}

export interface TrustScore {
  readonly score: number
  readonly components: readonly TrustComponent[]
  readonly standing: Standing
  readonly cap: number
  readonly gates: readonly Gate[]
  /** The product of the components, before cap and gates. */
  readonly product: number
}

/** The weighted geometric mean: reliability counts most, because every request shows it. */
const exponents = { reliability: 0.5, honesty: 0.35, conformance: 0.15 } as const

/**
 * Computes the trust score, 0..1: R^0.5 x H^0.35 x C^0.15 of the lower bounds, at most the cap of the standing. While
 * a gate is closed, it is at most 0.8, which `trusted_only` does not admit. A proven cheat has 0.
 */
export function trustScore(facts: TrustFacts): TrustScore {
  const componentOf = (name: keyof typeof exponents): TrustComponent => {
    const counts = facts[name]
    return {
      name,
      exponent: exponents[name],
      rate: goodRate(counts),
      sample: effectiveSample(counts),
      bound: lowerBound(counts),
    }
  }
  const honesty = componentOf('honesty')
  const honestyBound = honesty.bound
  const components = [componentOf('reliability'), honesty, componentOf('conformance')]
  const gates = [
    gate('requests', facts.requests),
    gate('audits', facts.audits),
    gate('ageDays', Math.floor(facts.ageMs / DAY_MS)),
    gate('honestyBound', honestyBound),
  ]
  const product = components.reduce((value, { bound, exponent }) => value * bound ** exponent, 1)
  const cap = capOf(facts.standing)
  const limit = gates.every(({ isPassed }) => isPassed) ? cap : Math.min(cap, TRUSTED_ABOVE)
  return {
    score: facts.isQuarantined ? 0 : Math.min(limit, product),
    components,
    standing: facts.standing,
    cap,
    gates,
    product,
  }
}

function gate(name: Gate['name'], has: number): Gate {
  return { name, has, needs: gateLimits[name], isPassed: has >= gateLimits[name] }
}

/** Returns what would raise the score, the most effective first. */
export function waysToRaise({ components, gates, cap, standing, product }: Omit<TrustScore, 'score'>): Said[] {
  const ways: Said[] = []
  for (const { name, has, needs, isPassed } of gates) if (!isPassed) ways.push(gateTexts[name](has, needs))
  // No score above the cap is possible, so a hoster learns of it before the cap is what holds it back.
  if (standing === 'unverified') ways.push(say('trust.verify'))
  else if (product > cap) ways.push(say('trust.contract'))
  const weakest = elementAt(
    components.toSorted((a, b) => a.bound ** a.exponent - b.bound ** b.exponent),
    0,
  )
  if (weakest.bound < 0.98) {
    const isFew = weakest.rate - weakest.bound > 1 - weakest.rate
    ways.push(say(`trust.${weakest.name}.${isFew ? 'few' : 'faults'}`))
  }
  return ways
}

const gateTexts: Readonly<Record<Gate['name'], (has: number, needs: number) => Said>> = {
  requests: (has, needs) => say('trust.requests', { count: needs - has }),
  audits: (has, needs) => say('trust.audits', { count: needs - has }),
  ageDays: (has, needs) => say('trust.days', { count: needs - has }),
  honestyBound: (has, needs) => say('trust.honesty_bound', { bound: has.toFixed(3), needs }),
}

/** What each component counts, in a sentence for everybody. */
export const componentTexts: Readonly<Record<TrustComponent['name'], string>> = {
  reliability:
    'Requests of customers without a fault of the hoster, weighted by what was paid. `sample` is how many requests of equal weight would tell as much.',
  honesty: 'Audits passed: token audits, canaries, and comparisons with other servers of the same models.',
  conformance:
    'Answers that could be read, reported their usage, kept to `max_tokens` and named the requested model, weighted like requests.',
}
