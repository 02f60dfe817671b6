import { type Attack, attacks } from './behaviour.ts'
import { type HosterOutcome, runMarket } from './market.ts'

/** The results of one attack over many markets. */
export interface AttackResult {
  readonly attack: Attack & { readonly mustBeFound: boolean }
  readonly markets: number
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
}

/** A cheat should be quarantined within so many audits. */
export const AUDITS_MAX = 70

/** Runs each attack in `markets` markets, with the seeds from `from` on. */
export function proveMarket(from: number, markets: number, onResult: (result: AttackResult) => void): AttackResult[] {
  return attacks.map(attack => {
    const outcomes = Array.from({ length: markets }, (_, at) => runMarket(from + at, attack))
    const result = { attack, ...summarise(outcomes) }
    onResult(result)
    return result
  })
}

function summarise(outcomes: readonly (readonly HosterOutcome[])[]): Omit<AttackResult, 'attack'> {
  const honest = outcomes.flat().filter(({ isHonest }) => isHonest)
  const attackers = outcomes.flat().filter(({ isHonest }) => !isHonest)
  const isFalseAlarm = ({ isHonest, auditsToQuarantine }: HosterOutcome) => isHonest && auditsToQuarantine !== null
  const audits = attackers.flatMap(({ auditsToQuarantine }) => auditsToQuarantine ?? []).sort((a, b) => a - b)
  const isAbove = ({ score }: HosterOutcome) => score > 0.8
  return {
    markets: outcomes.length,
    attackers: attackers.length,
    foundEarly: audits.filter(count => count <= AUDITS_MAX).length,
    found: audits.length,
    medianAudits: audits[audits.length >> 1] ?? null,
    honest: honest.length,
    honestAbove: honest.filter(isAbove).length,
    falseAlarms: honest.filter(isFalseAlarm).length,
    marketsWithFalseAlarm: outcomes.filter(hosters => hosters.some(isFalseAlarm)).length,
    attackersAbove: attackers.filter(isAbove).length,
  }
}
