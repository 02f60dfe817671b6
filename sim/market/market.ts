import { makeCanary } from '../../src/trust/canary.ts'
import { auditCanaries, type CanaryRecord, needsAnotherCanary } from '../../src/trust/canary-audit.ts'
import { comparePanel } from '../../src/trust/compare-panel.ts'
import { type CustomerEvidence, sumCustomers } from '../../src/trust/customer-evidence.ts'
import { addCounts } from '../../src/trust/decayed-counts.ts'
import { addAudit, type HosterEvidence, noHosterEvidence } from '../../src/trust/hoster-evidence.ts'
import { type LearnedRatio, learnRatio, REPORTS_KEPT } from '../../src/trust/learn-ratio.ts'
import { auditMeter, batchReports, COUNTED_MIN, type ReportedUse } from '../../src/trust/meter-audit.ts'
import { provenBy, type SignalKind } from '../../src/trust/quarantine.ts'
import { type RequestTally, tallyEvidence } from '../../src/trust/request-tally.ts'
import { trustScore } from '../../src/trust/trust-score.ts'
import { createRandom, type Random } from '../random.ts'
import { type Attack, type Behaviour, honestBehaviour } from './behaviour.ts'

export interface HosterOutcome {
  readonly isHonest: boolean
  /** At the end of the market. */
  readonly score: number
  /**
   * Audits from the first cheat to the quarantine that can show the cheat: token audits for false reports, otherwise those that were
   * sent. Null: not quarantined.
   */
  readonly auditsToQuarantine: number | null
  readonly provenBy: readonly SignalKind[]
}

/** One audit is sent to each hoster an hour, for ten days. The product sends one in ten minutes. */
const STEP_MS = 3_600_000
const STEPS = 10 * 24
const HOSTERS = 6
const CUSTOMERS = 9
/** Requests of an hour at one hoster: a small market. */
const REQUESTS = 16
/** Kept distances of each hoster. */
const DISTANCES_KEPT = 60
/** Steps. Learning takes most of the time of a market. */
const LEARNED_EVERY = 12

interface World {
  readonly random: Random
  readonly attack: Attack
  /** Reported tokens of an honest server for one that the gateway counts, and the noise of ln of it. */
  readonly ratio: { readonly input: number; readonly output: number }
  readonly noise: number
  /** How often honest servers and the cheap model fail a canary. */
  readonly failure: number
  readonly cheapFailure: number
  /** The median distance of honest answers, and the factor of the cheap model. */
  readonly distance: number
  readonly cheapFactor: number
}

class Hoster {
  readonly id: string
  readonly behaviour: Behaviour
  readonly faultRate: number
  readonly distanceFactor: number
  /** Honest servers differ a little in what they count, such as the tokens of their chat template. */
  readonly honestShift: number
  readonly reports: { input: number[]; output: number[] } = { input: [], output: [] }
  readonly customers = new Map<string, CustomerEvidence>()
  readonly distances: number[] = []
  canaries: CanaryRecord = { asked: 0, failed: 0 }
  waiting: ReportedUse[] = []
  evidence: HosterEvidence = noHosterEvidence
  requests = 0
  isCheating: boolean
  auditsSinceCheat = 0
  auditsToQuarantine: number | null = null
  proof: readonly SignalKind[] = []

  constructor(id: string, behaviour: Behaviour, random: Random) {
    this.id = id
    this.behaviour = behaviour
    this.faultRate = random.skewed(0.001, 0.012)
    this.distanceFactor = random.skewed(0.75, 1.35)
    this.honestShift = (random.next() - 0.5) * 0.008
    this.isCheating = behaviour !== honestBehaviour && !behaviour.waitsForTrust
  }
}

/**
 * Runs one market: traffic, audits, scores and quarantines, by the code of src/trust. The same seed and attack give the same
 * market.
 */
export function runMarket(seed: number, attack: Attack): HosterOutcome[] {
  const random = createRandom(seed)
  const world: World = {
    random,
    attack,
    ratio: { input: random.skewed(0.9, 1.3), output: random.skewed(0.9, 1.3) },
    noise: random.skewed(0.015, 0.06),
    failure: random.skewed(0.002, 0.03),
    cheapFailure: random.skewed(0.12, 0.7),
    distance: random.skewed(0.005, 0.06),
    cheapFactor: random.skewed(3, 15),
  }
  const hosters = Array.from({ length: HOSTERS }, (_, at) => {
    return new Hoster(`h${at}`, at < attack.attackers ? attack.behaviour : honestBehaviour, random.fork())
  })
  const local = { input: [] as number[], output: [] as number[] }
  let learned = learnRatio([])
  for (let step = 0; step < STEPS; step++) {
    const nowMs = (step + 1) * STEP_MS
    if (step % LEARNED_EVERY === 0)
      learned = learnRatio([
        ...hosters.map(({ reports }) => ({ isLocal: false, ...reports })),
        ...(attack.reference ? [{ isLocal: true, ...local }] : []),
      ])
    if (attack.reference) for (let at = 0; at < 6; at++) keepReport(local, traffic(world, 'local', undefined))
    for (const hoster of hosters) {
      serveTraffic(world, hoster, hosters, nowMs)
      auditReports(hoster, learned, nowMs)
    }
    if (step % 2 === 0) for (const hoster of hosters) auditByCanary(world, hoster, hosters, nowMs)
    else auditByPanel(world, hosters, nowMs)
    for (const hoster of hosters) decide(hoster, nowMs)
  }
  return hosters.map(hoster => ({
    isHonest: hoster.behaviour === honestBehaviour,
    score: scoreOf(hoster, STEPS * STEP_MS),
    auditsToQuarantine: hoster.auditsToQuarantine,
    provenBy: hoster.proof,
  }))
}

/** The requests of an hour, a quarter of them of the largest customer. */
function serveTraffic(world: World, hoster: Hoster, hosters: readonly Hoster[], nowMs: number): void {
  const { random, attack } = world
  const isFramed = attack.framing > 0 && hoster === hosters[0]
  const tallies = new Map<string, RequestTally>()
  for (let at = 0; at < REQUESTS; at++) {
    const isPoison = isFramed && random.chance(attack.framing)
    const customer = isPoison ? 'poisoner' : `c${Math.floor(CUSTOMERS * random.next() ** 1.5)}`
    const before = tallies.get(customer) ?? { good: 0, weight: 0, squares: 0, faults: 0, violations: 0 }
    const weight = 1 + random.skewed(20, 5_000)
    hoster.requests++
    // A poison prompt breaks the server of this hoster only, or makes it count twice as many tokens.
    const hasFailed = random.chance(isPoison ? 0.5 : hoster.faultRate)
    tallies.set(
      customer,
      hasFailed
        ? { ...before, faults: before.faults + 1 }
        : { ...before, good: before.good + 1, weight: before.weight + weight, squares: before.squares + weight ** 2 },
    )
    if (hasFailed) continue
    const use = traffic(world, customer, hoster)
    const seen = isPoison
      ? { ...use, reportedInput: use.reportedInput * 2, reportedOutput: use.reportedOutput * 2 }
      : use
    keepReport(hoster.reports, seen)
    if (seen.countedInput >= COUNTED_MIN) hoster.waiting.push(seen)
  }
  for (const [customer, tally] of tallies) {
    const added = tallyEvidence(tally, 900, nowMs)
    const before = hoster.customers.get(customer)
    hoster.customers.set(
      customer,
      before === undefined
        ? added
        : {
            reliability: addCounts(before.reliability, added.reliability),
            conformance: addCounts(before.conformance, added.conformance),
          },
    )
  }
}

/** One request with its reported and counted tokens. */
function traffic({ random, ratio, noise }: World, customerId: string, hoster: Hoster | undefined): ReportedUse {
  const lie = hoster?.isCheating ? hoster.behaviour.lie : 1
  const inputLie = hoster?.behaviour.lieOutputOnly ? 1 : lie
  const countedInput = Math.round(random.skewed(40, 8_000))
  const countedOutput = Math.round(random.skewed(60, 1_500))
  const shift = hoster?.honestShift ?? 0
  const report = (counted: number, factor: number, by: number) =>
    Math.round(counted * factor * by * Math.exp(shift + noise * normal(random)))
  return {
    customerId,
    countedInput,
    countedOutput,
    reportedInput: report(countedInput, ratio.input, inputLie),
    reportedOutput: report(countedOutput, ratio.output, lie),
  }
}

function keepReport(reports: { input: number[]; output: number[] }, use: ReportedUse): void {
  reports.input.push(Math.log(use.reportedInput / use.countedInput))
  reports.output.push(Math.log(use.reportedOutput / use.countedOutput))
  for (const values of [reports.input, reports.output]) if (values.length > REPORTS_KEPT) values.shift()
}

function auditReports(hoster: Hoster, learned: LearnedRatio, nowMs: number): void {
  if (!learned.isLearned) {
    hoster.waiting = []
    return
  }
  for (const batch of batchReports(hoster.waiting)) {
    const { eValue, hasPassed } = auditMeter(batch, learned)
    note(hoster, 'meter', eValue, hasPassed, nowMs)
    hoster.waiting = hoster.waiting.filter(use => !batch.includes(use))
  }
  hoster.waiting = hoster.waiting.slice(-96)
}

function auditByCanary(world: World, hoster: Hoster, hosters: readonly Hoster[], nowMs: number): void {
  const { random, attack } = world
  const others = hosters.filter(other => other !== hoster)
  const reference = attack.reference ? referenceRecord(world, nowMs) : { asked: 0, failed: 0 }
  const record = {
    asked: others.reduce((sum, { canaries }) => sum + canaries.asked, reference.asked),
    failed: others.reduce((sum, { canaries }) => sum + canaries.failed, reference.failed),
  }
  const answered: boolean[] = []
  do {
    const canary = makeCanary(random.next, 'sum')
    const isLong = canary.messages.at(-1)!.content.length > 1_500
    const isCheap = isServedByCheapModel(world, hoster, isLong)
    answered.push(!random.chance(isCheap ? world.cheapFailure : world.failure))
  } while (needsAnotherCanary(answered))
  hoster.canaries = {
    asked: hoster.canaries.asked + answered.length,
    failed: hoster.canaries.failed + answered.filter(isAnswered => !isAnswered).length,
  }
  const { eValue, hasPassed } = auditCanaries(answered, record)
  note(hoster, 'canary', eValue, hasPassed, nowMs)
}

/** The canaries that a local server has answered until now. */
function referenceRecord({ failure }: World, nowMs: number): CanaryRecord {
  const asked = Math.floor(nowMs / STEP_MS)
  return { asked, failed: Math.round(asked * failure) }
}

function isServedByCheapModel({ random }: World, { isCheating, behaviour }: Hoster, isLong: boolean): boolean {
  if (!isCheating || (behaviour.swapLongOnly && !isLong)) return false
  return random.chance(behaviour.swapShare) && !random.chance(behaviour.recognises)
}

/** An answer as a point: the distance of two is known from the servers that gave them. */
interface PanelAnswer {
  readonly isCheap: boolean
  readonly factor: number
  readonly colludes: boolean
}

function auditByPanel(world: World, hosters: readonly Hoster[], nowMs: number): void {
  const { random, attack } = world
  const isLong = random.chance(0.3)
  const panel = hosters.map(hoster => {
    const { colludes } = hoster.behaviour
    const isCheap = isServedByCheapModel(world, hoster, isLong)
    return { hosterId: hoster.id, answer: { isCheap, factor: hoster.distanceFactor, colludes } as PanelAnswer }
  })
  const reference = { hosterId: null, answer: { isCheap: false, factor: 1, colludes: false } }
  const results = comparePanel(
    attack.reference ? [...panel, reference] : panel,
    (a, b) => distanceOf(world, a, b),
    new Map(hosters.map(({ id, distances }) => [id, distances])),
  )
  for (const { hosterId, distance, eValue, hasPassed } of results) {
    const hoster = hosters.find(({ id }) => id === hosterId)!
    note(hoster, attack.logprobs ? 'fingerprint' : 'agreement', eValue, hasPassed, nowMs)
    hoster.distances.push(distance)
    if (hoster.distances.length > DISTANCES_KEPT) hoster.distances.shift()
  }
}

/** Without logprobs, texts differ much more between honest servers, and by the same factor less from a cheap model. */
function distanceOf({ random, attack, distance, cheapFactor }: World, a: PanelAnswer, b: PanelAnswer): number {
  const isOther = a.isCheap !== b.isCheap || (a.isCheap && !(a.colludes && b.colludes))
  const factor = isOther ? (attack.logprobs ? cheapFactor : Math.sqrt(cheapFactor)) : 1
  const spread = attack.logprobs ? 0.35 : 0.7
  return Math.min(1, distance * factor * Math.sqrt(a.factor * b.factor) * Math.exp(spread * normal(random)))
}

function note(hoster: Hoster, kind: SignalKind, eValue: number, hasPassed: boolean | null, atMs: number): void {
  if (hoster.auditsToQuarantine !== null) return
  hoster.evidence = addAudit(hoster.evidence, { kind, eValue, hasPassed, atMs })
  const { lie, swapShare } = hoster.behaviour
  const shows = kind === 'meter' ? lie !== 1 : swapShare > 0
  if (hoster.isCheating && shows) hoster.auditsSinceCheat++
}

function decide(hoster: Hoster, nowMs: number): void {
  if (hoster.behaviour.waitsForTrust && !hoster.isCheating) hoster.isCheating = scoreOf(hoster, nowMs) > 0.8
  if (hoster.auditsToQuarantine !== null) return
  hoster.proof = provenBy(hoster.evidence.signals)
  if (hoster.proof.length > 0) hoster.auditsToQuarantine = hoster.auditsSinceCheat
}

function scoreOf(hoster: Hoster, nowMs: number): number {
  const { reliability, conformance } = sumCustomers([...hoster.customers.values()], nowMs)
  const { honesty, audits } = hoster.evidence
  return trustScore({
    reliability,
    conformance,
    honesty,
    audits,
    requests: hoster.requests,
    ageMs: nowMs,
    standing: 'verified',
    isQuarantined: hoster.auditsToQuarantine !== null,
  }).score
}

/** Box and Muller. */
function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
}
