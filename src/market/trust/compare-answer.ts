import { elementAt } from '../../base/runtime/collections.ts'
import { type TopTokens, textSimilarity } from './answer-distance.ts'
import { rankPValue } from './e-values.ts'
import { median, multiply } from './statistics.ts'

export const comparisonKinds = ['gap', 'words', 'odds', 'pair'] as const
/**
 * How an answer is compared with that of a reference to the same request.
 *
 * - `gap`, at temperature 0: how much less likely than the likeliest, by the reference's log probabilities, the token is with which the
 *   answers part, in nats. Servers of one model part at near ties, another model also where the reference is certain.
 * - `words`, at temperature 0 where the reference has no log probabilities: 1 / the word with which they part. 0: they do not part.
 * - `odds`, at other temperatures: ln of how much likelier the tokens up to the parting are under a model that is less certain than the
 *   reference. Another model draws tokens that the reference finds unlikely more often than the reference does.
 * - `pair`, where the reference has no log probabilities: 1 if the answer is less like an answer of the reference than another one of the reference is; else 0.
 */
export type ComparisonKind = (typeof comparisonKinds)[number]

export interface Comparison {
  readonly kind: ComparisonKind
  readonly value: number
}

/** What a reference answered. */
export interface ReferenceAnswer {
  readonly text: string
  /** Empty if the server has no log probabilities. */
  readonly topTokens: readonly TopTokens[]
}

/**
 * How many answers of the reference an answer is compared with. One at temperature 0 with log probabilities tells about
 * answers at any temperature.
 */
export function referenceAnswersFor(temperature: number | undefined, hasLogprobs = false): number {
  return temperature === 0 || hasLogprobs ? 1 : 2
}

/**
 * Compares the answer of a hoster with the answers of a reference to the same request. Null if they tell nothing.
 *
 * @param references as many as `referenceAnswersFor` says; one with log probabilities was given at temperature 0
 * @param temperature of the hoster's answer; undefined: the server's default
 */
export function compareAnswer(
  own: string,
  references: readonly ReferenceAnswer[],
  temperature: number | undefined,
): Comparison | null {
  const [first, second] = references
  if (first === undefined || own === '' || first.text === '') return null
  if (temperature === 0) {
    return first.topTokens.length > 0
      ? { kind: 'gap', value: gapAtParting(own, first.topTokens) }
      : { kind: 'words', value: wordsToParting(own, first.text) }
  }
  if (first.topTokens.length > 0)
    return { kind: 'odds', value: oddsUntilParting(own, first.topTokens, Math.max(temperature ?? 1, TEMPERATURE_MIN)) }
  if (second === undefined) return null
  const [ownLikeness, otherLikeness] = [textSimilarity(own, first.text), textSimilarity(second.text, first.text)]
  if (Math.abs(ownLikeness - otherLikeness) < 1e-9) return null
  return { kind: 'pair', value: ownLikeness < otherLikeness ? 1 : 0 }
}

/** A position up to which an answer agrees with the likeliest tokens of a reference. */
interface Position {
  readonly tokens: TopTokens['tokens']
  readonly best: TopTokens['tokens'][number]
  /** What the answer has here. Undefined: a token that the reference does not list. */
  readonly chosen: TopTokens['tokens'][number] | undefined
}

/** Returns the positions of an answer up to the one with which it parts from the likeliest tokens. */
function positionsOf(own: string, answer: readonly TopTokens[]): Position[] {
  const positions: Position[] = []
  let at = 0
  for (const { tokens } of answer) {
    const best = tokens.reduce((likeliest, each) => (each.logprob > likeliest.logprob ? each : likeliest))
    // Where an answer ends, or a token has only a part of a character, nothing is known about the next token.
    if (at >= own.length || best.token.includes('\ufffd')) break
    const isBest = own.startsWith(best.token, at)
    const longest = tokens
      .filter(({ token }) => token !== '' && own.startsWith(token, at))
      .toSorted((a, b) => b.token.length - a.token.length)[0]
    positions.push({ tokens, best, chosen: isBest ? best : longest })
    if (!isBest) break
    at += best.token.length
  }
  return positions
}

function gapAtParting(own: string, answer: readonly TopTokens[]): number {
  const { tokens, best, chosen } = positionsOf(own, answer).at(-1) ?? {}
  if (tokens === undefined || best === undefined || chosen === best) return 0
  return best.logprob - (chosen?.logprob ?? Math.min(...tokens.map(({ logprob }) => logprob)) - UNLISTED_NATS)
}

/** How much less likely than the listed ones a token is taken to be that the reference does not list. */
const UNLISTED_NATS = 1

function oddsUntilParting(own: string, answer: readonly TopTokens[], temperature: number): number {
  return positionsOf(own, answer).reduce((sum, { tokens, chosen }) => {
    const probabilities = tokens.map(({ logprob }) => Math.exp(logprob))
    const rest = Math.max(UNLISTED_MIN, 1 - probabilities.reduce((total, each) => total + each, 0))
    const least = Math.min(rest, ...probabilities)
    const logOf = (flatness: number, isHonest: boolean) => {
      const powers = probabilities.map(each => each ** (1 / flatness))
      // Each token that is not listed is at most as likely as the least likely one that is. How many they are is not
      // known, so in favour of the hoster they take nothing from the listed ones where a low temperature makes them
      // unlikely.
      const unlisted = rest * least ** (1 / flatness - 1)
      const listed = powers.reduce((total, each) => total + each, 0)
      if (chosen === undefined) return Math.log(unlisted / (listed + unlisted))
      return Math.log(
        elementAt(powers, tokens.indexOf(chosen)) / (isHonest && flatness < 1 ? listed : listed + unlisted),
      )
    }
    return sum + logOf(CHEAT_FLATNESS * temperature, false) - logOf(HONEST_FLATNESS * temperature, true)
  }, 0)
}

/**
 * Below this temperature, the noise of hardware decides more than chance. An answer at a lower one is judged as if it
 * were at this one, which only makes an honest server look more honest.
 */
const TEMPERATURE_MIN = 0.5
const UNLISTED_MIN = 1e-6
/**
 * An honest server draws tokens as at a temperature higher by this factor, at most: hardware and quantization add noise
 * to its logits. A lower default of its temperature only makes it look more honest.
 */
const HONEST_FLATNESS = 1.1
/** Another model draws about as at a temperature higher by this factor. */
const CHEAT_FLATNESS = 2.5

function wordsToParting(own: string, other: string): number {
  const [a, b] = [own, other].map(text => text.trim().split(/\s+/)) as [string[], string[]]
  const parted = a.findIndex((word, at) => at < b.length && word !== b[at])
  return parted === -1 ? 0 : 1 / (parted + 1)
}

/** An audit judges this many comparisons. */
export const COMPARED_BATCH = 32

/** The latest values that other hosters of the model had, by kind and hoster. */
export type EarlierValues = Readonly<Record<'gap' | 'words', ReadonlyMap<string, readonly number[]>>>

export interface ComparisonResult {
  /** One for each alternative of the test. */
  readonly eValues: readonly number[]
  /** Null: too little is known to judge it, or two customers alone say that it failed. */
  readonly hasPassed: boolean | null
  /**
   * The part of the answers that were less like the reference than those of other hosters are in one case of 100, or
   * than half of its own.
   */
  readonly statistic: number
}

/** A comparison of an audit, with the customer whose request it was. Null: a prompt of the gateway. */
export interface BatchedComparison extends Comparison {
  readonly customerId: string | null
}

/**
 * Judges comparisons of one hoster. Values at temperature 0 are extreme only among those of the other hosters of the
 * model: honest servers differ by hardware, batching and quantization, and how much is learned.
 */
export function auditComparisons(batch: readonly BatchedComparison[], earlier: EarlierValues): ComparisonResult {
  const honest = { gap: honestValues(earlier.gap), words: honestValues(earlier.words) }
  let ranked = likelihoods(1).map(() => 1)
  let paired = PAIR_LOSSES.map(() => 1)
  let drawn = SHARES.map(() => 1)
  let [judged, pairs, losses] = [0, 0, 0]
  /** The customer of each extreme value. */
  const extreme: (string | null)[] = []
  for (const { kind, value, customerId } of batch) {
    if (kind === 'odds') {
      judged++
      if (value > Math.log(1 / EXTREME_P)) extreme.push(customerId)
      const ratio = Math.exp(Math.min(value, ODDS_MAX))
      drawn = multiply(
        drawn,
        SHARES.map(share => 1 - share + share * ratio),
      )
    } else if (kind === 'pair') {
      pairs++
      losses += value
      paired = multiply(
        paired,
        PAIR_LOSSES.map(loss => lossEValue(value, loss)),
      )
    } else if (honest[kind].length >= VALUES_MIN) {
      judged++
      const p = rankPValue(value / TOLERANCE - FLOORS[kind], honest[kind])
      if (p <= EXTREME_P) extreme.push(customerId)
      ranked = multiply(ranked, likelihoods(p))
    }
  }
  const hasLost = losses - pairs * HONEST_LOSSES > LOST_SDS * Math.sqrt(pairs * HONEST_LOSSES * (1 - HONEST_LOSSES))
  return {
    // One cheat need not show in all of them.
    eValues: [...ranked, ...drawn, ...paired],
    hasPassed: judged + pairs < COMPARED_BATCH / 2 ? null : hasLost ? false : isHonest(extreme),
    statistic: (extreme.length + losses) / Math.max(1, judged + pairs),
  }
}

/**
 * Judges an audit by the customers of its extreme values. A customer that knows a prompt which an honest server answers
 * in another way could make up a quarter of each audit, so the customer with the most is left out. A hoster fails if
 * the prompts of the gateway alone show it, or comparisons of three customers, the gateway being one. Null: two
 * customers show it, and may have agreed on it.
 */
function isHonest(extreme: readonly (string | null)[]): boolean | null {
  const counts = new Map([...Map.groupBy(extreme, customerId => customerId)].map(([of, each]) => [of, each.length]))
  if (extreme.length < EXTREME_MAX) return true
  if ((counts.get(null) ?? 0) >= EXTREME_MAX || counts.size >= SHOWN_BY_MIN) return false
  counts.delete(null)
  return extreme.length - Math.max(0, ...counts.values()) < EXTREME_MAX ? true : null
}

const SHOWN_BY_MIN = 3

/**
 * Ranks need hosters that could be exchanged, but an honest one with other hardware is always a little farther away
 * than the rest. So much farther it may be.
 */
const TOLERANCE = 1.5
/**
 * Where all others run the same software on the same hardware, they hardly part. So much is always allowed: nats, and 1
 * / words.
 */
const FLOORS = { gap: 0.1, words: 0.02 } as const
/** One answer alone proves nothing: its odds count at most e^4. */
const ODDS_MAX = 4
/** With fewer values of others, a rank says little about the tail. */
const VALUES_MIN = 99

const EXTREME_P = 0.01
/** Without the tolerance, an honest hoster would have so many of 32 in one audit of 250. */
const EXTREME_MAX = 3
const LOST_SDS = 3.1

/**
 * The part of the pairs that an honest hoster loses at most. It is half if both servers draw in the same way; other
 * defaults of temperature and penalties raise it.
 */
const HONEST_LOSSES = 0.6
/** The part that a cheat may lose. */
const PAIR_LOSSES: readonly number[] = [0.68, 0.78, 0.9]

function lossEValue(value: number, losses: number): number {
  return value === 1 ? losses / HONEST_LOSSES : (1 - losses) / (1 - HONEST_LOSSES)
}

/**
 * Returns the e-values of one rank: for a share of answers by another model, and for how small its p-values are. With a
 * rate r they have the density r e^(-r p) / (1 - e^-r), which has a mean of at most 1 for honest ones because it falls.
 */
function likelihoods(p: number): number[] {
  return RATES.flatMap(rate => {
    const density = (rate * Math.exp(-rate * p)) / (1 - Math.exp(-rate))
    return SHARES.map(share => 1 - share + share * density)
  })
}

const RATES = [6, 25, 100]
const SHARES = [0.08, 0.3, 0.8]

/** A cheat has larger values on average by a factor; honest servers differ from each other by less. */
const HONEST_FACTOR = 2

/** Returns the values of the hosters that seem honest. Without this limit, two cheats would hide each other. */
function honestValues(of: ReadonlyMap<string, readonly number[]>): number[] {
  const known = [...of.values()].filter(values => values.length > 0)
  if (known.length === 0) return []
  const meanOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const limit = median(known.map(meanOf)) * HONEST_FACTOR + 0.02
  return known.filter(values => meanOf(values) <= limit).flat()
}
