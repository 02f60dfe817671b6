import { bumpControlVersion } from '../../base/db/control-version.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { sumCustomers } from './customer-evidence.ts'
import { pruneAudits } from './evidence/audit-store.ts'
import { isBroadlySupported } from './evidence/compared-store.ts'
import { type HosterFacts, readFactsOf, readHosterFacts, writeScore } from './evidence/hoster-facts.ts'
import { reviewPayers } from './evidence/payers.ts'
import { lockTrustOf, readCustomerEvidence, type StoredTrust, writeTrust } from './evidence/trust-store.ts'
import { provenBy, type SignalKind, type Signals } from './quarantine.ts'
import { quarantineHoster } from './quarantine-hoster.ts'
import { readSpan } from './read-span.ts'
import { type TrustScore, trustScore } from './trust-score.ts'

export interface ScoreDeps {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'warn'>
  /** How long after its start a request counts: see `readSpan`. */
  readonly delayMs: number
}

/** One run catches up with an hour at most; the next one, a minute later, continues. */
const SPANS_MAX = 12

/**
 * Reads new usage rows, then computes the score of each hoster and quarantines those with a proven cheat. Run it as a
 * job: once a minute in the whole cluster. Two runs at once do no harm.
 */
export async function scoreHosters({ pool, clock, log, delayMs }: ScoreDeps): Promise<void> {
  for (let spans = 0; spans < SPANS_MAX; spans++) {
    if (!(await transaction(pool, sql => readSpan(sql, clock.epochMs(), delayMs)))) break
  }
  await transaction(pool, sql => reviewPayers(sql, clock.epochMs()))
  for (const { hosterId } of await readHosterFacts(pool)) {
    const quarantined = await transaction(pool, sql => scoreHoster(sql, hosterId, clock.epochMs()))
    if (quarantined !== null) log.warn(quarantined, 'a hoster is quarantined: its audits prove a cheat')
  }
  await pruneAudits(pool, clock.epochMs())
}

/** Returns the hoster and the reason if it was quarantined now. */
async function scoreHoster(
  sql: Sql,
  hosterId: string,
  nowMs: number,
): Promise<{ hoster: string; reason: string } | null> {
  const trust = await lockTrustOf(sql, hosterId)
  const facts = await readFactsOf(sql, hosterId)
  const score = await computeScore(sql, facts, trust, nowMs)
  await writeTrust(sql, trust, nowMs, score)
  // Nobody is quarantined twice, and comparisons take long to read.
  const mayBeQuarantined = facts.state === 'active' || facts.state === 'paused'
  const proof = mayBeQuarantined ? await proofOf(sql, hosterId, trust.evidence.signals) : []
  const isNew = proof.length > 0
  const used = isNew || facts.quarantinedAt !== null ? 0 : (facts.override ?? score.score)
  if (await writeScore(sql, hosterId, used)) await bumpControlVersion(sql, 'supply')
  if (!isNew) return null
  const reason = await quarantineHoster(sql, hosterId, proof, trust.evidence.signals)
  return { hoster: facts.name, reason }
}

/** Returns the signals that prove a cheat. Comparisons do only if several customers support them. */
async function proofOf(sql: Sql, hosterId: string, signals: Signals): Promise<readonly SignalKind[]> {
  const proof = provenBy(signals)
  if (!proof.includes('shadow') || (await isBroadlySupported(sql, hosterId))) return proof
  const { shadow: _, ...others } = signals
  return provenBy(others)
}

/** Computes the earned score, whatever the operator has set. */
export async function computeScore(
  sql: Sql,
  { hosterId, activeSince, standing, quarantinedAt }: HosterFacts,
  { evidence: { honesty, audits }, requests }: Pick<StoredTrust, 'evidence' | 'requests'>,
  nowMs: number,
): Promise<TrustScore> {
  const { reliability, conformance } = sumCustomers(await readCustomerEvidence(sql, hosterId), nowMs)
  const ageMs = activeSince === null ? 0 : nowMs - activeSince.getTime()
  const isQuarantined = quarantinedAt !== null
  return trustScore({ reliability, honesty, conformance, requests, audits, ageMs, standing, isQuarantined })
}
