import { evenRatio, type MeterRatio, RATIO_MAX, RATIO_MIN } from '../../base/domain/meter-ratio.ts'
import { median, robustDeviation } from './statistics.ts'

/** Recent reports of one endpoint for one model, each as ln(reported tokens / counted tokens). */
export interface MeterSource {
  /** Local servers belong to the operator, who gains nothing from their reports. */
  readonly isLocal: boolean
  /** Endpoints of one hoster, and of related ones, have one vote together. Absent: this endpoint has its own. */
  readonly voter?: string
  readonly input: readonly number[]
  readonly output: readonly number[]
}

export interface LearnedRatio extends MeterRatio {
  /** The standard deviation of ln(reported / expected) of one honest report. */
  readonly inputSd: number
  readonly outputSd: number
  /** The standard error of ln(ratio). */
  readonly inputError: number
  readonly outputError: number
  /** False: too few sources. The ratio is then 1, and no hoster is judged by it. */
  readonly isLearned: boolean
}

/** An endpoint with fewer reports does not count. */
const REPORTS_MIN = 48
/** Without a local server, this many hosters must agree. With two, nobody knows which one lies. */
const HOSTERS_MIN = 3
/** How many recent reports of an endpoint are kept. With a spread of 5%, their median is then exact to 0.3%. */
export const REPORTS_KEPT = 512

/** Identical tokenizers have no spread at all; a spread of zero would make every rounding a proof. */
const SD_MIN = 0.005

/**
 * Learns the ratio of a model. Each endpoint has one vote, its median; those of one voter have the median of theirs.
 * Votes of local servers decide if there are any, otherwise the median of the votes of at least three voters: one
 * cannot move it, whatever it reports, however much traffic it has, and however many endpoints and names.
 */
export function learnRatio(sources: readonly MeterSource[]): LearnedRatio {
  const input = learnSide(sources, 'input')
  const output = learnSide(sources, 'output')
  if (input === undefined || output === undefined)
    return { ...evenRatio, inputSd: SD_MIN, outputSd: SD_MIN, inputError: 0, outputError: 0, isLearned: false }
  return {
    input: input.ratio,
    inputSd: input.sd,
    inputError: input.error,
    output: output.ratio,
    outputSd: output.sd,
    outputError: output.error,
    isLearned: true,
  }
}

function learnSide(
  all: readonly MeterSource[],
  side: 'input' | 'output',
): { ratio: number; sd: number; error: number } | undefined {
  const sources = all.filter(source => source[side].length >= REPORTS_MIN)
  const local = sources.filter(({ isLocal }) => isLocal)
  const voters = local.length > 0 ? local : sources
  const votes = [...Map.groupBy(voters, source => source.voter ?? source)].map(([, ofVoter]) =>
    median(ofVoter.map(source => median(source[side]))),
  )
  if (local.length === 0 && votes.length < HOSTERS_MIN) return undefined
  const ratio = Math.exp(median(votes))
  const sd = Math.max(SD_MIN, median(sources.map(source => robustDeviation(source[side]))))
  // The median of n normal values has a standard error of 1.25 x sd / sqrt(n).
  const error = (1.25 * sd) / Math.sqrt(median(voters.map(source => source[side].length)))
  return { ratio: Math.min(RATIO_MAX, Math.max(RATIO_MIN, ratio)), sd, error }
}
