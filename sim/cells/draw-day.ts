import type { Random } from '../random.ts'

export const DAY_S = 86_400

/** The requests of one cell in one day. */
export interface DrawnDay {
  readonly requests: number
  readonly requestsInBusiestSecond: number
}

/**
 * The rate of a second of the day, relative to the mean of the day: a sine with its peak at 14:00 and its trough at 02:00.
 *
 * @param peak the rate at 14:00, relative to the mean: 1 to 2
 */
export function rateAt(second: number, peak: number): number {
  return 1 + (peak - 1) * Math.cos(2 * Math.PI * (second / DAY_S - 14 / 24))
}

/** Draws the requests of each second of a day: independent requests, so their number is Poisson distributed. */
export function drawDay(requestsPerDay: number, peak: number, random: Random): DrawnDay {
  let requests = 0
  let requestsInBusiestSecond = 0
  for (let second = 0; second < DAY_S; second++) {
    const drawn = drawPoisson((requestsPerDay / DAY_S) * rateAt(second, peak), random)
    requests += drawn
    requestsInBusiestSecond = Math.max(requestsInBusiestSecond, drawn)
  }
  return { requests, requestsInBusiestSecond }
}

/** Above this mean, the normal distribution differs from Poisson's by less than a request in most draws. */
const NORMAL_FROM = 30

function drawPoisson(mean: number, random: Random): number {
  if (mean >= NORMAL_FROM) {
    // Box and Muller. 1 - next() is never 0.
    const normal = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
    return Math.max(0, Math.round(mean + Math.sqrt(mean) * normal))
  }
  // Knuth: counts how many uniform numbers multiply to e^-mean.
  const limit = Math.exp(-mean)
  let drawn = 0
  for (let product = random.next(); product > limit; product *= random.next()) drawn++
  return drawn
}
