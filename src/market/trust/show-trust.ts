import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { hosterCodes } from '../../base/domain/hoster-sentences.ts'
import { TRUSTED_ABOVE } from '../../base/domain/offer.ts'
import { lastAppeals } from './appeals.ts'
import type { AuditCounts } from './evidence/audit-store.ts'
import { type HosterFacts, readHosterFacts } from './evidence/hoster-facts.ts'
import { readTrustDay } from './evidence/trust-day-store.ts'
import { PAIR_P, PROOF_P, signalKinds, signalMeanings } from './quarantine.ts'
import { isImplausiblyFast, readSpeeds } from './speeds.ts'
import { type LiveFigures, noFigures, readFigures, type ShownFigures } from './trust-figures.ts'
import { capOf, componentTexts, waysToRaise } from './trust-score.ts'

/** How many of the last audits everybody sees. The hoster itself sees all that are stored. */
const PUBLIC_AUDITS = 10

/**
 * Returns how a hoster's score came about, as of the last day that may be shown: see `shownDay`. Throws
 * `hoster_not_found`, also for hosters that were never active.
 */
export async function showTrust(sql: Sql, hosterId: string, nowMs: number) {
  const [facts] = await readHosterFacts(sql, hosterId)
  if (facts === undefined || facts.activeSince === null) throw new ApiError('hoster_not_found')
  return (await readLate(sql, facts, PUBLIC_AUDITS, nowMs)).shown
}

/** Like `showTrust`, with the tests, the appeals and the speed of answers: for the hoster itself. */
export async function showOwnTrust(sql: Sql, hosterId: string, nowMs: number) {
  const facts = await readFacts(sql, hosterId)
  const { shown, tests } = await readLate(sql, facts, Infinity, nowMs)
  return { ...shown, tests, ...(await showPrivate(sql, facts, nowMs)) }
}

/** Like `showOwnTrust`, but with the figures of now and the exact times of audits: for the operator. */
export async function showLiveTrust(sql: Sql, hosterId: string, nowMs: number) {
  const facts = await readFacts(sql, hosterId)
  const figures = await readFigures(sql, facts, nowMs)
  return {
    ...showFigures(facts, figures, facts.score),
    last_audits: figures.lastAudits,
    tests: showTests(figures),
    ...(await showPrivate(sql, facts, nowMs)),
  }
}

async function readFacts(sql: Sql, hosterId: string): Promise<HosterFacts> {
  const [facts] = await readHosterFacts(sql, hosterId)
  if (facts === undefined) throw new ApiError('hoster_not_found')
  return facts
}

async function readLate(sql: Sql, facts: HosterFacts, audits: number, nowMs: number) {
  const known = await readTrustDay(sql, facts.hosterId, nowMs)
  const figures = known?.figures ?? noFigures
  // A quarantine, and what the operator has set, depend on no single audit.
  const score = facts.quarantinedAt !== null ? 0 : (facts.override ?? figures.score)
  const shown = {
    ...showFigures(facts, figures, score),
    as_of_day: known?.day ?? null,
    last_audits: withoutOrder(figures.lastAudits.slice(0, audits)),
  }
  return { shown, tests: showTests(figures) }
}

/** Sorts the audits of each day by what they found: their order tells a hoster which of its requests they may be. */
function withoutOrder(audits: ShownFigures['lastAudits']): ShownFigures['lastAudits'] {
  const textOf = ({ kind, model, passed, statistic }: (typeof audits)[number]) =>
    `${kind} ${model} ${passed} ${statistic}`
  return audits.toSorted((a, b) => compare(b.day, a.day) || compare(textOf(a), textOf(b)))
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** @param used the score that routing uses, as far as the reader may know it */
function showFigures(facts: HosterFacts, figures: LiveFigures | ShownFigures, used: number) {
  const { standing } = facts
  const { components, gates, product } = figures
  const cap = capOf(standing)
  const ways = waysToRaise({ components, gates, product, standing, cap })
  return {
    object: 'hoster_trust' as const,
    hoster_id: facts.hosterId,
    name: facts.name,
    state: facts.state,
    score: used,
    is_trusted: used > TRUSTED_ABOVE,
    is_set_by_operator: facts.override !== null && facts.quarantinedAt === null,
    earned_score: facts.quarantinedAt !== null ? 0 : figures.score,
    is_quarantined: facts.quarantinedAt !== null,
    standing,
    cap,
    components: components.map(component => ({ ...component, counts: componentTexts[component.name] })),
    gates: gates.map(({ name, has, needs, isPassed }) => ({ name, has, needs, is_passed: isPassed })),
    would_raise: ways.map(({ text }) => text),
    would_raise_codes: ways.flatMap(({ codes }) => codes),
    requests: figures.requests,
    audits: figures.audits,
    signals: showSignals(figures.signals),
  }
}

function showSignals(counts: readonly AuditCounts[]) {
  return signalKinds.map(signal => {
    const { passed = 0, failed = 0, undecided = 0 } = counts.find(({ kind }) => kind === signal) ?? {}
    return { signal, compares: signalMeanings[signal], passed, failed, undecided }
  })
}

function showTests({ tests }: LiveFigures | ShownFigures) {
  return tests.map(test => ({ ...test, proof_alone_below: PROOF_P, proof_with_another_below: PAIR_P }))
}

/** What only the hoster and the operator see, and what no audit moves. */
async function showPrivate(sql: Sql, { hosterId, quarantineReason }: HosterFacts, nowMs: number) {
  const speeds = await readSpeeds(sql, hosterId, nowMs)
  return {
    quarantine_reason: quarantineReason,
    quarantine_reason_codes: hosterCodes(quarantineReason),
    appeals: await lastAppeals(sql, hosterId),
    speeds: speeds.map(({ modelId, tokensPerSecond }) => ({
      model: modelId,
      tokens_per_second: Math.round(tokensPerSecond),
      is_implausible: isImplausiblyFast(modelId, tokensPerSecond),
    })),
  }
}
