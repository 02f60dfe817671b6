import type { Sql } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'
import { lastAppeals } from './appeals.ts'
import { type AuditCounts, countAudits, listAudits } from './evidence/audit-store.ts'
import { type HosterFacts, readHosterFacts } from './evidence/hoster-facts.ts'
import { readSpeeds } from './evidence/read-speeds.ts'
import { readTrust } from './evidence/trust-store.ts'
import { PAIR_P, PROOF_P, signalKinds, signalMeanings } from './quarantine.ts'
import { computeScore } from './score-hosters.ts'
import { isImplausiblyFast } from './speed-check.ts'
import { componentTexts, TRUSTED_ABOVE, waysToRaise } from './trust-score.ts'

/** How many of the last audits are shown: to everybody, and to the hoster itself. */
const PUBLIC_AUDITS = 10
const OWN_AUDITS = 100

/** Returns how a hoster's score comes about. Throws `hoster_not_found`, also for hosters that were never active. */
export async function showTrust(sql: Sql, hosterId: string, nowMs: number) {
  const [facts] = await readHosterFacts(sql, hosterId)
  if (facts === undefined || facts.activeSince === null) throw new ApiError('hoster_not_found')
  return shown(sql, facts, PUBLIC_AUDITS, nowMs)
}

/** Like `showTrust`, with the tests, the appeals and the speed of answers: for the hoster itself and the operator. */
export async function showOwnTrust(sql: Sql, hosterId: string, nowMs: number) {
  const [facts] = await readHosterFacts(sql, hosterId)
  if (facts === undefined) throw new ApiError('hoster_not_found')
  const trust = await readTrust(sql, hosterId)
  const speeds = await readSpeeds(sql, hosterId, nowMs)
  return {
    ...(await shown(sql, facts, OWN_AUDITS, nowMs)),
    tests: signalKinds.map(kind => ({
      signal: kind,
      audits: trust.evidence.signals[kind]?.seen ?? 0,
      p: trust.evidence.signals[kind]?.p ?? 1,
      proof_alone_below: PROOF_P,
      proof_with_another_below: PAIR_P,
    })),
    quarantine_reason: facts.quarantineReason,
    appeals: await lastAppeals(sql, hosterId),
    speeds: speeds.map(({ modelId, tokensPerSecond }) => ({
      model: modelId,
      tokens_per_second: Math.round(tokensPerSecond),
      is_implausible: isImplausiblyFast(modelId, tokensPerSecond),
    })),
  }
}

async function shown(sql: Sql, facts: HosterFacts, audits: number, nowMs: number) {
  const trust = await readTrust(sql, facts.hosterId)
  const score = await computeScore(sql, facts, trust, nowMs)
  const isOverridden = facts.override !== null && facts.quarantinedAt === null
  return {
    object: 'hoster_trust' as const,
    hoster_id: facts.hosterId,
    name: facts.name,
    state: facts.state,
    /** What routing uses: computed each minute. */
    score: facts.score,
    is_trusted: facts.score > TRUSTED_ABOVE,
    is_set_by_operator: isOverridden,
    earned_score: score.score,
    is_quarantined: facts.quarantinedAt !== null,
    standing: score.standing,
    cap: score.cap,
    components: score.components.map(({ name, exponent, rate, sample, bound }) => ({
      name,
      counts: componentTexts[name],
      exponent,
      rate,
      sample,
      bound,
    })),
    gates: score.gates.map(({ name, has, needs, isPassed }) => ({ name, has, needs, is_passed: isPassed })),
    would_raise: waysToRaise(score),
    requests: trust.requests,
    audits: trust.evidence.audits,
    signals: signalsOf(await countAudits(sql, facts.hosterId)),
    last_audits: (await listAudits(sql, facts.hosterId, audits)).map(
      ({ kind, model_id, passed, statistic, sample, at }) => ({
        kind,
        model: model_id,
        passed,
        statistic,
        sample,
        at: at.toISOString(),
      }),
    ),
  }
}

function signalsOf(counts: readonly AuditCounts[]) {
  return signalKinds.map(signal => {
    const { passed = 0, failed = 0, undecided = 0 } = counts.find(({ kind }) => kind === signal) ?? {}
    return { signal, compares: signalMeanings[signal], passed, failed, undecided }
  })
}
