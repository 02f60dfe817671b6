import { addCounts } from '../../src/market/trust/decayed-counts.ts'
import { REPORTS_KEPT } from '../../src/market/trust/learn-ratio.ts'
import { COUNTED_MIN, type ReportedUse } from '../../src/market/trust/meter-audit.ts'
import { type RequestTally, tallyEvidence } from '../../src/market/trust/request-tally.ts'
import { earn } from './earn.ts'
import type { SimulatedHoster } from './simulated-hoster.ts'
import { normal } from './synthetic-model.ts'
import type { World } from './world.ts'

const CUSTOMERS = 9
/** Requests of two hours at one hoster: a small market. */
const REQUESTS = 96
/** Newcomers get 1% of the requests of a model until they have given 200 answers: here, of the requests of six hosters. */
const NEWCOMER_REQUESTS = 8
const NEWCOMER_ANSWERS = 200

/**
 * The requests of two hours, a quarter of them of the largest customer. Returns how many answers may be compared: to customers that
 * share their requests.
 */
export function serveTraffic(world: World, hoster: SimulatedHoster, nowMs: number): number {
  const { random, attack, hosters } = world
  const isFramed = attack.framing > 0 && hoster === hosters[0]
  const isNewcomer = hoster.registration > 0 && hoster.requests < NEWCOMER_ANSWERS
  const tallies = new Map<string, RequestTally>()
  let shared = 0
  for (let at = 0; at < (isNewcomer ? NEWCOMER_REQUESTS : REQUESTS); at++) {
    const isFramer = isFramed && random.chance(attack.framing)
    // A customer that leaves in the middle of an answer is no evidence at all: read-requests.ts does not count it.
    if (isFramer && random.chance(attack.disconnects)) continue
    const isOwn = random.chance(hoster.behaviour.ownTraffic)
    // Known customers of the hoster itself count for nothing.
    if (isOwn && hoster.behaviour.isOwnTrafficKnown) continue
    const number = Math.floor(CUSTOMERS * random.next() ** 1.5)
    const customer = isFramer
      ? `framer${random.between(1, attack.framers)}`
      : isOwn
        ? `own${random.between(1, 4)}`
        : `c${number}`
    hoster.requests++
    const hasFailed = random.chance(isFramer ? 0.5 : isOwn ? 0 : hoster.faultRate)
    tally(tallies, customer, hasFailed, 1 + random.skewed(20, 5_000))
    if (hasFailed) continue
    if (!isFramer && !isOwn && number >= CUSTOMERS - attack.sharing) shared++
    const use = reportUse(world, customer, hoster)
    // A poison prompt, such as one in a rare script, makes an honest server count twice as many tokens.
    const factor = isFramer ? 2 : 1
    const seen = { ...use, reportedInput: use.reportedInput * factor, reportedOutput: use.reportedOutput * factor }
    keepReport(hoster.reports, seen)
    if (seen.countedInput >= COUNTED_MIN) hoster.waiting.push(seen)
    // Before, all hosters alike are billed by the gateway's count.
    if (!world.learned.isLearned) continue
    const { nanos, honestNanos } = earn(seen, world.learned, world.ratio)
    hoster.earned += nanos
    hoster.honestEarned += honestNanos
  }
  for (const [customer, tallied] of tallies) addTally(hoster, customer, tallied, nowMs)
  return shared
}

function tally(tallies: Map<string, RequestTally>, customer: string, hasFailed: boolean, weight: number): void {
  const before = tallies.get(customer) ?? { good: 0, weight: 0, squares: 0, faults: 0, violations: 0 }
  tallies.set(
    customer,
    hasFailed
      ? { ...before, faults: before.faults + 1 }
      : { ...before, good: before.good + 1, weight: before.weight + weight, squares: before.squares + weight ** 2 },
  )
}

function addTally({ customers }: SimulatedHoster, customer: string, tallied: RequestTally, nowMs: number): void {
  const added = tallyEvidence(tallied, 900, nowMs)
  const before = customers.get(customer)
  customers.set(
    customer,
    before === undefined
      ? added
      : {
          reliability: addCounts(before.reliability, added.reliability),
          conformance: addCounts(before.conformance, added.conformance),
        },
  )
}

/** One request with its reported and counted tokens. A hoster that recognises it as an audit reports honestly. */
export function reportUse(
  { random, ratio, noise }: World,
  customerId: string,
  hoster: SimulatedHoster | undefined,
  isRecognised = false,
): ReportedUse {
  const lie = hoster?.isCheating && !isRecognised ? hoster.behaviour.lie : 1
  const inputLie = hoster?.behaviour.lieOutputOnly ? 1 : lie
  const countedInput = Math.round(random.skewed(40, 8_000))
  const countedOutput = Math.round(random.skewed(60, 1_500))
  const shift = hoster?.honestShift ?? 0
  const report = (counted: number, factor: number, by: number) =>
    Math.round(counted * factor * by * Math.exp(shift + noise * normal(random.next(), random.next())))
  return {
    ...{ customerId, countedInput, countedOutput },
    reportedInput: report(countedInput, ratio.input, inputLie),
    reportedOutput: report(countedOutput, ratio.output, lie),
  }
}

export function keepReport(reports: { input: number[]; output: number[] }, use: ReportedUse): void {
  reports.input.push(Math.log(use.reportedInput / use.countedInput))
  reports.output.push(Math.log(use.reportedOutput / use.countedOutput))
  for (const values of [reports.input, reports.output]) if (values.length > REPORTS_KEPT) values.shift()
}
