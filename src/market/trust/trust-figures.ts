import type { Sql } from '../../base/db/pool.ts'
import { TRUSTED_ABOVE } from '../../base/domain/offer.ts'
import { utcDayOf } from '../supply/hosters/shown-score.ts'
import { noCounts } from './decayed-counts.ts'
import { type AuditCounts, countAudits, listAudits } from './evidence/audit-store.ts'
import type { HosterFacts } from './evidence/hoster-facts.ts'
import { readTrust } from './evidence/trust-store.ts'
import { type SignalKind, signalKinds } from './quarantine.ts'
import { computeScore } from './score-hosters.ts'
import { type TrustScore, trustScore } from './trust-score.ts'

/** What depends on audits, or tells them apart from other requests. */
interface Figures<Audit> extends Pick<TrustScore, 'score' | 'product' | 'components' | 'gates'> {
  /** Requests of customers ever counted. */
  readonly requests: number
  /** Audits ever passed or failed. */
  readonly audits: number
  readonly signals: readonly AuditCounts[]
  readonly tests: readonly TestFigures[]
  /** The newest first. */
  readonly lastAudits: readonly Audit[]
}

interface TestFigures {
  readonly signal: SignalKind
  readonly audits: number
  readonly p: number
}

interface AuditFigures {
  readonly kind: SignalKind
  readonly model: string
  readonly passed: boolean | null
  readonly statistic: number
  readonly sample: number
}

/** The figures as they are now, with exact times: for the operator. */
export type LiveFigures = Figures<AuditFigures & { readonly at: string }>

/** Rounded figures, with the UTC day of each audit only: what is stored for hosters and the public. */
export type ShownFigures = Figures<AuditFigures & { readonly day: string }>

/** How many of the last audits are known to the hoster and the operator. */
const AUDITS_LISTED = 100

/**
 * Reads the figures of a hoster. Its score is the earned one, also while it is quarantined or the operator has set
 * another.
 */
export async function readFigures(sql: Sql, facts: HosterFacts, nowMs: number): Promise<LiveFigures> {
  const trust = await readTrust(sql, facts.hosterId)
  const { score, product, components, gates } = await computeScore(sql, { ...facts, quarantinedAt: null }, trust, nowMs)
  return {
    score,
    product,
    components,
    gates,
    requests: trust.requests,
    audits: trust.evidence.audits,
    signals: await countAudits(sql, facts.hosterId),
    tests: signalKinds.map(signal => {
      const { seen = 0, p = 1 } = trust.evidence.signals[signal] ?? {}
      return { signal, audits: seen, p }
    }),
    lastAudits: (await listAudits(sql, facts.hosterId, AUDITS_LISTED)).map(({ model_id: model, at, ...audit }) => ({
      ...audit,
      model,
      at: at.toISOString(),
    })),
  }
}

/**
 * Rounds the figures for hosters and the public. The requests of customers that are in exact sums of weights could be
 * computed from a hoster's log, and so the other ones, which are the audits.
 */
export function roundFigures(figures: LiveFigures): ShownFigures {
  const { score, product, components, gates, tests, lastAudits } = figures
  return {
    ...figures,
    score: roundScore(score),
    product: to(3, product),
    components: components.map(component => ({
      ...component,
      rate: to(3, component.rate),
      sample: Math.round(component.sample),
      bound: to(3, component.bound),
    })),
    gates: gates.map(gate => ({ ...gate, has: to(3, gate.has) })),
    tests: tests.map(test => ({ ...test, p: Number(test.p.toPrecision(2)) })),
    lastAudits: lastAudits.map(({ at, statistic, ...audit }) => ({
      ...audit,
      statistic: Number(statistic.toPrecision(3)),
      day: utcDayOf(Date.parse(at)),
    })),
  }
}

/**
 * Rounds to two decimals, but never across the limit of `trusted_only`: 0.803 is above 0.8, and so is what is shown.
 */
function roundScore(score: number): number {
  return score > TRUSTED_ABOVE ? Math.max(to(2, score), 0.81) : Math.min(to(2, score), TRUSTED_ABOVE)
}

function to(decimals: number, value: number): number {
  return Math.round(value * 10 ** decimals) / 10 ** decimals
}

/** The figures of a hoster of which nothing may be shown yet. */
export const noFigures: ShownFigures = roundFigures({
  ...trustScore({
    reliability: noCounts,
    honesty: noCounts,
    conformance: noCounts,
    requests: 0,
    audits: 0,
    ageMs: 0,
    standing: 'unverified',
    isQuarantined: false,
  }),
  requests: 0,
  audits: 0,
  signals: [],
  lastAudits: [],
  tests: signalKinds.map(signal => ({ signal, audits: 0, p: 1 })),
})
