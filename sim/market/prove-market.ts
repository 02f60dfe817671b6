import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { type Attack, attacks } from './behaviour.ts'
import type { HosterOutcome } from './market.ts'
import type { MarketTask } from './market-worker.ts'

/** The results of one attack over many markets. */
export interface AttackResult {
  readonly attack: Attack
  readonly markets: number
  /** Registered once: later names of the same operator are counted apart. */
  readonly attackers: number
  /** Attackers quarantined within 70 audits of their first cheat, and at any time. */
  readonly foundEarly: number
  readonly found: number
  /** The median of the quarantined hosters; null when none is quarantined. */
  readonly medianAudits: number | null
  readonly honest: number
  readonly honestAbove: number
  readonly falseAlarms: number
  readonly marketsWithFalseAlarm: number
  /** Attackers above 0.8 at the end. */
  readonly attackersAbove: number
  /** What attackers are paid, relative to honest reports of the same requests. */
  readonly paid: number
  readonly whitewashing: Whitewashing | null
}

/** Registrations after a quarantine, compared with the first ones. */
export interface Whitewashing {
  /** For each attacker. */
  readonly registrations: number
  /** How many of the new names are quarantined too. */
  readonly found: number
  readonly medianAudits: number | null
  readonly highestScore: number
  /** Nano-USD an hour: of the first registration while it cheats, and of the later ones. */
  readonly firstPerHour: number
  readonly laterPerHour: number
}

/** A cheat should be quarantined within so many audits. */
export const AUDITS_MAX = 70

/** Runs each attack in `markets` markets, with the seeds from `from` on, on all processors. */
export async function proveMarket(
  from: number,
  markets: number,
  onResult: (result: AttackResult) => void,
): Promise<AttackResult[]> {
  const workers = Array.from(
    { length: Math.min(availableParallelism(), markets) },
    () => new Worker(new URL('./market-worker.ts', import.meta.url)),
  )
  const results: AttackResult[] = []
  for (const [at, attack] of attacks.entries()) {
    const tasks = Array.from({ length: markets }, (_, seed) => ({ attack: at, seed: from + seed }))
    const outcomes = (await Promise.all(workers.map(worker => runTasks(worker, tasks)))).flat()
    const result = { attack, ...summarise(outcomes) }
    results.push(result)
    onResult(result)
  }
  await Promise.all(workers.map(worker => worker.terminate()))
  return results
}

/** Gives one task after the other to a worker, until none is left. */
async function runTasks(worker: Worker, tasks: MarketTask[]): Promise<(readonly HosterOutcome[])[]> {
  const outcomes: (readonly HosterOutcome[])[] = []
  for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
    worker.postMessage(task)
    outcomes.push(((await once(worker, 'message')) as [readonly HosterOutcome[]])[0])
  }
  return outcomes
}

function summarise(outcomes: readonly (readonly HosterOutcome[])[]): Omit<AttackResult, 'attack'> {
  const honest = outcomes.flat().filter(({ isHonest }) => isHonest)
  const attackers = outcomes.flat().filter(({ isHonest, registration }) => !isHonest && registration === 0)
  const later = outcomes.flat().filter(({ registration }) => registration > 0)
  const isFalseAlarm = ({ isHonest, auditsToQuarantine }: HosterOutcome) => isHonest && auditsToQuarantine !== null
  const audits = auditsOf(attackers)
  const isAbove = ({ score }: HosterOutcome) => score > 0.8
  return {
    markets: outcomes.length,
    attackers: attackers.length,
    foundEarly: audits.filter(count => count <= AUDITS_MAX).length,
    found: audits.length,
    medianAudits: middle(audits),
    honest: honest.length,
    honestAbove: honest.filter(isAbove).length,
    falseAlarms: honest.filter(isFalseAlarm).length,
    marketsWithFalseAlarm: outcomes.filter(hosters => hosters.some(isFalseAlarm)).length,
    attackersAbove: attackers.filter(isAbove).length,
    paid: sum(attackers, one => one.earnedPerHour) / sum(attackers, one => one.honestPerHour),
    whitewashing: later.length === 0 ? null : compareRegistrations(attackers, later),
  }
}

function compareRegistrations(first: readonly HosterOutcome[], later: readonly HosterOutcome[]): Whitewashing {
  const audits = auditsOf(later)
  return {
    registrations: later.length / first.length,
    found: audits.length / later.length,
    medianAudits: middle(audits),
    highestScore: Math.max(...later.map(({ highestScore }) => highestScore)),
    firstPerHour: sum(first, one => one.earnedPerHour) / first.length,
    laterPerHour: sum(later, one => one.earnedPerHour) / later.length,
  }
}

function auditsOf(hosters: readonly HosterOutcome[]): number[] {
  return hosters.flatMap(({ auditsToQuarantine }) => auditsToQuarantine ?? []).sort((a, b) => a - b)
}

function middle(sorted: readonly number[]): number | null {
  return sorted[sorted.length >> 1] ?? null
}

function sum(hosters: readonly HosterOutcome[], of: (hoster: HosterOutcome) => number): number {
  return hosters.reduce((total, hoster) => total + of(hoster), 0)
}
