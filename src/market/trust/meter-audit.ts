import { mean } from './change-evidence.ts'
import { shiftEValues } from './e-values.ts'
import type { LearnedRatio } from './learn-ratio.ts'

/** Tokens of one request as the hoster reported and the gateway counted them. */
export interface ReportedUse {
  readonly customerId: string
  readonly reportedInput: number
  readonly countedInput: number
  readonly reportedOutput: number
  readonly countedOutput: number
}

/** A token audit compares this many requests. */
export const METER_BATCH = 32

/** Fewer tokens are mostly chat template, and its size differs between servers. */
export const COUNTED_MIN = 48

/** The most requests of one customer in an audit. Its unusual prompts must not decide the audit. */
const PER_CUSTOMER = 4
/**
 * With this many customers or more, the one with the largest reports is left out, and with so many two of them. Three
 * customers then cannot frame a hoster together: what is left of their reports is less than the quarter that the middle
 * half leaves out.
 */
const TRIMMED_FROM = 4
const TRIMMED_TWICE_FROM = 8

/** Honest hosters differ from each other by at most this in ln(reported / expected). Smaller lies pass. */
export const HONEST_SHIFT_MAX = 0.01

/** Differences between batches that are not noise of single requests, such as the mix of languages. */
const BATCH_SD = 0.003

/** ln(reported / expected) of the cheats that the test looks for: 2%, 4%, 10%, 40%, each of input or of output. */
const alternatives = [0.02, 0.04, 0.1, 0.35]

/** The p-value below which a batch fails: an honest hoster fails one audit in 1,000. */
const FAILED_SDS = 3.1

export interface MeterResult {
  /** One for each alternative of the test. */
  readonly eValues: readonly number[]
  readonly hasPassed: boolean
  /** The larger mean of ln(reported / expected), of input or output. */
  readonly shift: number
}

/**
 * Compares a batch of reports with the gateway's counts, by the mean of their middle half: a customer with prompts that
 * make an honest server report far more than expected, such as rare scripts, moves it little.
 */
export function auditMeter(batch: readonly ReportedUse[], learned: LearnedRatio): MeterResult {
  const input = side(
    batch.map(use => ({ ...use, value: logRatio(use.reportedInput, use.countedInput, learned.input) })),
    learned.inputSd,
    learned.inputError,
  )
  const output = side(
    batch.map(use => ({ ...use, value: logRatio(use.reportedOutput, use.countedOutput, learned.output) })),
    learned.outputSd,
    learned.outputError,
  )
  const sides = [input, output].filter(value => value !== undefined)
  const eValuesOf = (one: MeterResult | undefined) => one?.eValues ?? alternatives.map(() => 1)
  return {
    // Input and output may depend on each other, so their e-values are not multiplied.
    eValues: [...eValuesOf(input), ...eValuesOf(output)],
    hasPassed: sides.every(({ hasPassed }) => hasPassed),
    shift: Math.max(0, ...sides.map(({ shift }) => shift)),
  }
}

/** ln(reported / expected) of one request; null if it has too few tokens to tell. */
interface CustomerValue {
  readonly customerId: string
  readonly value: number | null
}

function side(reports: readonly CustomerValue[], sdOfOne: number, ratioError: number): MeterResult | undefined {
  const values = withoutLargest(reports)
  if (values.length < METER_BATCH / 2) return undefined
  const shift = middleMean(values)
  // The mean of the middle half of n normal values has a standard deviation of about 1.1 x sd / sqrt(n).
  const sd = Math.hypot((1.1 * sdOfOne) / Math.sqrt(values.length), BATCH_SD)
  const meanMax = HONEST_SHIFT_MAX + ratioError
  return {
    eValues: shiftEValues(shift, { meanMax, sd, alternatives: alternatives.map(lie => lie + ratioError) }),
    hasPassed: shift <= meanMax + FAILED_SDS * sd,
    shift,
  }
}

function middleMean(values: readonly number[]): number {
  const cut = Math.floor(values.length / 4)
  const middle = values.toSorted((a, b) => a - b).slice(cut, values.length - cut)
  return middle.reduce((sum, value) => sum + value, 0) / middle.length
}

/**
 * Leaves out one or two customers with the largest means. Honest means only become smaller by that, so the test keeps
 * its false alarm rate.
 */
function withoutLargest(reports: readonly CustomerValue[]): number[] {
  const known = reports.flatMap(({ customerId, value }) => (value === null ? [] : [{ customerId, value }]))
  const customers = [...Map.groupBy(known, ({ customerId }) => customerId).values()].map(of =>
    of.map(({ value }) => value),
  )
  if (customers.length < TRIMMED_FROM) return customers.flat()
  return customers
    .toSorted((a, b) => mean(b) - mean(a))
    .slice(customers.length >= TRIMMED_TWICE_FROM ? 2 : 1)
    .flat()
}

function logRatio(reported: number, counted: number, ratio: number): number | null {
  return counted < COUNTED_MIN || reported <= 0 ? null : Math.log(reported / (counted * ratio))
}

/** Groups reports into batches with at most four of one customer each. Leaves out those that fill no batch. */
export function batchReports(reports: readonly ReportedUse[]): ReportedUse[][] {
  const batches: ReportedUse[][] = []
  for (const report of reports) {
    const fits = (batch: ReportedUse[]) =>
      batch.length < METER_BATCH &&
      batch.filter(({ customerId }) => customerId === report.customerId).length < PER_CUSTOMER
    const open = batches.find(fits)
    if (open) open.push(report)
    else batches.push([report])
  }
  return batches.filter(batch => batch.length === METER_BATCH)
}
