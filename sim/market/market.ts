import { type LearnedRatio, learnRatio } from '../../src/market/trust/learn-ratio.ts'
import { auditMeter, batchReports } from '../../src/market/trust/meter-audit.ts'
import type { SignalKind } from '../../src/market/trust/quarantine.ts'
import { createRandom } from '../random.ts'
import { type Attack, honestBehaviour } from './behaviour.ts'
import { auditHoster } from './simulated-audits.ts'
import { SimulatedHoster } from './simulated-hoster.ts'
import { keepReport, reportUse, serveTraffic } from './simulated-traffic.ts'
import type { World } from './world.ts'

export interface HosterOutcome {
  readonly isHonest: boolean
  /** How often the same operator registered before. */
  readonly registration: number
  /** At the end of the market. */
  readonly score: number
  readonly highestScore: number
  /**
   * Audits from the first cheat to the quarantine that can show the cheat: token audits for false reports, otherwise all others in
   * which it took part. Null: not quarantined.
   */
  readonly auditsToQuarantine: number | null
  /** From the first cheat to the quarantine. Null: not quarantined. */
  readonly quarantinedAfterMs: number | null
  readonly provenBy: readonly SignalKind[]
  /** Nano-USD an hour while it was active: earned, and what an honest server would have earned with the same requests. */
  readonly earnedPerHour: number
  readonly honestPerHour: number
}

/** One audit is sent to each hoster in two hours, for ten days. The product sends one in ten minutes. */
const STEP_MS = 2 * 3_600_000
const STEPS = 10 * 12
const HOSTERS = 6
/** Steps. Learning takes most of the time of a market. */
const LEARNED_EVERY = 12
/** A token audit waits with at most so many reports. */
const WAITING_MAX = 96

/**
 * Runs one market: traffic, bills, audits, scores and quarantines, by the code of src/. The same seed and attack give the
 * same market.
 */
export function runMarket(seed: number, attack: Attack): HosterOutcome[] {
  const random = createRandom(seed)
  const world: World = {
    random,
    attack,
    hosters: [],
    ratio: { input: random.skewed(0.9, 1.3), output: random.skewed(0.9, 1.3) },
    noise: random.skewed(0.015, 0.06),
    atZero: random.skewed(0.1, 0.6),
    runNoise: random.skewed(0.03, 0.3),
    cheapNoise: random.skewed(1.2, 3),
    learned: learnRatio([]),
  }
  for (let at = 0; at < HOSTERS; at++) {
    const behaviour = at < attack.attackers ? attack.behaviour : honestBehaviour
    world.hosters.push(new SimulatedHoster(`h${at}`, behaviour, random.fork(), { registration: 0, joinedMs: 0 }))
  }
  const local = { input: [] as number[], output: [] as number[] }
  for (let step = 0; step < STEPS; step++) {
    const nowMs = (step + 1) * STEP_MS
    if (!world.learned.isLearned || step % LEARNED_EVERY === 0) world.learned = learn(world, local)
    if (attack.reference) for (let at = 0; at < 6; at++) keepReport(local, reportUse(world, 'local', undefined))
    for (const hoster of world.hosters.filter(({ isActive }) => isActive)) {
      const shared = serveTraffic(world, hoster, nowMs)
      const requests = auditHoster(world, hoster, shared, nowMs)
      for (const [at, { hoster: asked, isRecognised }] of requests.entries()) {
        const use = reportUse(world, `house${at % 8}`, asked, isRecognised)
        keepReport(asked.reports, use)
        asked.waiting.push(use)
      }
    }
    for (const hoster of world.hosters) auditReports(hoster, world.learned, nowMs)
    for (const hoster of [...world.hosters]) {
      const wasActive = hoster.isActive
      hoster.decide(nowMs)
      if (wasActive && !hoster.isActive && hoster.behaviour.registersAgain) registerAgain(world, hoster, nowMs)
    }
  }
  return world.hosters.map(hoster => outcomeOf(hoster, STEPS * STEP_MS))
}

function learn({ hosters, attack }: World, local: { input: number[]; output: number[] }): LearnedRatio {
  return learnRatio([
    ...hosters.filter(({ isActive }) => isActive).map(({ reports }) => ({ isLocal: false, ...reports })),
    ...(attack.reference ? [{ isLocal: true, ...local }] : []),
  ])
}

/** The same operator comes back under another name: with no score, no audits, no age, and the limits of a newcomer. */
function registerAgain({ hosters, random }: World, { id, behaviour, registration }: SimulatedHoster, nowMs: number) {
  const again = { registration: registration + 1, joinedMs: nowMs }
  hosters.push(new SimulatedHoster(`${id}+`, behaviour, random.fork(), again))
}

function auditReports(hoster: SimulatedHoster, learned: LearnedRatio, nowMs: number): void {
  if (!learned.isLearned) {
    hoster.waiting = []
    return
  }
  const batches = batchReports(hoster.waiting)
  for (const batch of batches) hoster.noteAudit({ kind: 'meter', ...auditMeter(batch, learned), atMs: nowMs })
  const used = new Set(batches.flat())
  hoster.waiting = hoster.waiting.filter(use => !used.has(use)).slice(-WAITING_MAX)
}

function outcomeOf(hoster: SimulatedHoster, endMs: number): HosterOutcome {
  const from = hoster.cheatsFromMs ?? hoster.joinedMs
  const hours = Math.max(1, ((hoster.quarantinedMs ?? endMs) - from) / 3_600_000)
  return {
    isHonest: hoster.behaviour === honestBehaviour,
    registration: hoster.registration,
    score: hoster.scoreAt(endMs),
    highestScore: hoster.highestScore,
    auditsToQuarantine: hoster.auditsToQuarantine,
    quarantinedAfterMs: hoster.quarantinedMs === null ? null : hoster.quarantinedMs - from,
    provenBy: hoster.proof,
    earnedPerHour: hoster.earned / hours,
    honestPerHour: hoster.honestEarned / hours,
  }
}
