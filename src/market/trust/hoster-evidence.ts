import { addEvidence, noEvidence } from './change-evidence.ts'
import { addCounts, type DecayedCounts, noCounts } from './decayed-counts.ts'
import type { SignalKind, Signals } from './quarantine.ts'

/** What the audits of one hoster have shown. Stored as JSON. */
export interface HosterEvidence {
  readonly honesty: DecayedCounts
  /** Audits that passed or failed, ever. */
  readonly audits: number
  readonly signals: Signals
}

export const noHosterEvidence: HosterEvidence = { honesty: noCounts, audits: 0, signals: {} }

/** The verdict of one audit. */
export interface AuditResult {
  readonly kind: SignalKind
  /** One for each alternative of the signal's test. */
  readonly eValues: readonly number[]
  /** Null: it could not be judged, and counts neither way. */
  readonly hasPassed: boolean | null
  readonly atMs: number
}

/** Adds one audit: to the share of passed audits, and to the sequential test of its signal. */
export function addAudit(evidence: HosterEvidence, { kind, eValues, hasPassed, atMs }: AuditResult): HosterEvidence {
  const signals = { ...evidence.signals, [kind]: addEvidence(evidence.signals[kind] ?? noEvidence, eValues) }
  if (hasPassed === null) return { ...evidence, signals }
  const counted = { good: hasPassed ? 1 : 0, bad: hasPassed ? 0 : 1, squares: 1, atMs }
  return { honesty: addCounts(evidence.honesty, counted), audits: evidence.audits + 1, signals }
}
