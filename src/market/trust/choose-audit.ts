import { elementAt } from '../../base/runtime/collections.ts'
import type { SignalKind, Signals } from './quarantine.ts'

/**
 * What an audit does. `comparison`: compares an answer with that of a reference. `panel`: compares answers of several
 * hosters. `canary`: asks a prompt with a known answer.
 */
export type AuditKind = 'comparison' | 'panel' | 'canary'

/** How often each kind is drawn while no signal is suspicious. */
const weights: Readonly<Record<AuditKind, number>> = { comparison: 0.8, panel: 0.5, canary: 0.2 }
/** How much more often the kind of a suspicious signal is drawn, at most. */
const PULL_MAX = 6

const signalsOf: Readonly<Record<AuditKind, readonly SignalKind[]>> = {
  comparison: ['shadow'],
  panel: ['fingerprint', 'agreement'],
  canary: ['canary'],
}

/**
 * Draws the kind of the next audit of a hoster. A signal with a small p-value is drawn more often, so a cheat that
 * shows in one kind of audit only is found with fewer of them. The choice depends on earlier audits only, so it changes
 * no false alarm rate.
 *
 * @param random uniform in [0, 1)
 * @returns undefined if none is possible
 */
export function chooseAudit(
  signals: Signals,
  possible: readonly AuditKind[],
  random: () => number,
): AuditKind | undefined {
  const pulls = possible.map(kind => weights[kind] * Math.max(...signalsOf[kind].map(signal => pull(signals, signal))))
  let left = random() * pulls.reduce((sum, weight) => sum + weight, 0)
  return possible.find((_, at) => {
    left -= elementAt(pulls, at)
    return left < 0
  })
}

function pull(signals: Signals, kind: SignalKind): number {
  return Math.min(PULL_MAX, 1 - Math.log(signals[kind]?.p ?? 1))
}
