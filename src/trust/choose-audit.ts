import type { SignalKind, Signals } from './quarantine.ts'

/** What an audit does: `canary` asks prompts with known answers, the others compare answers with those of other servers. */
export interface AuditPlan {
  readonly kind: 'canary' | 'panel' | 'sampling'
  /** Panels ask for log probabilities. They are rare in ordinary traffic. */
  readonly hasLogprobs: boolean
}

/** The other servers of the model that can answer too. */
export interface AuditPeers {
  readonly hasReference: boolean
  readonly hosters: number
  /** The hoster sells a model of the operator, and was not compared with its server often enough. */
  readonly needsComparison: boolean
}

/** How often each kind is drawn while no signal is suspicious. */
const weights = { canary: 0.4, fingerprint: 0.25, agreement: 0.25, sampling: 0.1 } as const
/** How much more often the kind of a suspicious signal is drawn, at most. */
const PULL_MAX = 6

/**
 * Draws the kind of the next audit of a hoster. A signal with a small p-value is drawn more often, so a cheat that shows in one kind of
 * audit only is found with fewer of them. The choice depends on earlier audits only, so it changes no false alarm rate. Samples
 * are drawn that often too until the hoster was compared with the server of the operator.
 *
 * @param random uniform in [0, 1)
 */
export function chooseAudit(signals: Signals, peers: AuditPeers, random: () => number): AuditPlan {
  const canCompare = peers.hasReference || peers.hosters >= 2
  const possible = (['canary', 'fingerprint', 'agreement', 'sampling'] as const).filter(
    kind => kind === 'canary' || (kind === 'sampling' ? peers.hasReference : canCompare),
  )
  const pulls = possible.map(
    kind => weights[kind] * (kind === 'sampling' && peers.needsComparison ? PULL_MAX : pull(signals, kind)),
  )
  let left = random() * pulls.reduce((sum, weight) => sum + weight, 0)
  const drawn = possible.find((_, at) => {
    left -= pulls[at]!
    return left < 0
  })
  const kind = drawn ?? 'canary'
  if (kind === 'canary' || kind === 'sampling') return { kind, hasLogprobs: false }
  return { kind: 'panel', hasLogprobs: kind === 'fingerprint' }
}

function pull(signals: Signals, kind: SignalKind): number {
  return Math.min(PULL_MAX, 1 - Math.log(signals[kind]?.p ?? 1))
}
