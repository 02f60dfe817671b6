import type { AnswerDistance } from '../../src/market/trust/answer-distance.ts'
import type { BatchedComparison } from '../../src/market/trust/compare-answer.ts'
import { type CustomerEvidence, sumCustomers } from '../../src/market/trust/customer-evidence.ts'
import { COMPARED } from '../../src/market/trust/evidence/audit-store.ts'
import {
  type AuditResult,
  addAudit,
  type HosterEvidence,
  noHosterEvidence,
} from '../../src/market/trust/hoster-evidence.ts'
import type { ReportedUse } from '../../src/market/trust/meter-audit.ts'
import { provenBy, type SignalKind } from '../../src/market/trust/quarantine.ts'
import { trustScore } from '../../src/market/trust/trust-score.ts'
import type { Random } from '../random.ts'
import { type Behaviour, honestBehaviour } from './behaviour.ts'

/** One hoster of a simulated market, under one registration. */
export class SimulatedHoster {
  readonly id: string
  readonly behaviour: Behaviour
  /** How often the same operator registered before. */
  readonly registration: number
  readonly joinedMs: number
  readonly faultRate: number
  /** Honest servers differ by hardware and quantization: the factor of the noise of a market. */
  readonly noiseFactor: number
  /** Honest servers differ a little in what they count, such as the tokens of their chat template. */
  readonly honestShift: number
  readonly reports: { input: number[]; output: number[] } = { input: [], output: [] }
  readonly customers = new Map<string, CustomerEvidence>()
  /** What it draws with if a request names no temperature. */
  readonly defaultTemperature: number
  readonly distances: AnswerDistance[] = []
  /** Comparisons that wait for an audit, and the latest values, by which others are judged. */
  readonly compared: BatchedComparison[] = []
  readonly values: Record<'gap' | 'words', number[]> = { gap: [], words: [] }
  waiting: ReportedUse[] = []
  evidence: HosterEvidence = noHosterEvidence
  requests = 0
  isCheating: boolean
  cheatsFromMs: number | null = null
  auditsSinceCheat = 0
  auditsToQuarantine: number | null = null
  quarantinedMs: number | null = null
  proof: readonly SignalKind[] = []
  /** Nano-USD: earned, and what an honest server would have earned with the same requests. */
  earned = 0
  honestEarned = 0
  highestScore = 0

  constructor(
    id: string,
    behaviour: Behaviour,
    random: Random,
    { registration, joinedMs }: { registration: number; joinedMs: number },
  ) {
    this.id = id
    this.behaviour = behaviour
    this.registration = registration
    this.joinedMs = joinedMs
    this.faultRate = behaviour.faultRate ?? random.skewed(0.001, 0.012)
    this.noiseFactor = random.skewed(0.75, 1.35)
    this.defaultTemperature = 0.7 + 0.3 * random.next()
    this.honestShift = (random.next() - 0.5) * 0.008
    this.isCheating = behaviour !== honestBehaviour && !behaviour.waitsForTrust
    if (this.isCheating) this.cheatsFromMs = joinedMs
  }

  get isActive(): boolean {
    return this.quarantinedMs === null
  }

  noteAudit(result: AuditResult): void {
    if (!this.isActive) return
    this.evidence = addAudit(this.evidence, result)
    const { lie, swapShare } = this.behaviour
    const shows = result.kind === 'meter' ? lie !== 1 : swapShare > 0
    if (this.isCheating && shows) this.auditsSinceCheat++
  }

  noteDistance(distance: AnswerDistance): void {
    this.distances.push(distance)
    if (this.distances.length > COMPARED) this.distances.shift()
  }

  noteCompared(compared: BatchedComparison): void {
    this.compared.push(compared)
    const { kind } = compared
    if (kind !== 'gap' && kind !== 'words') return
    const values = this.values[kind]
    values.push(compared.value)
    if (values.length > COMPARED) values.shift()
  }

  /** Scores the hoster, starts a cheat that waited for trust, and quarantines on proof. */
  decide(nowMs: number): void {
    if (!this.isActive) return
    const score = this.scoreAt(nowMs)
    this.highestScore = Math.max(this.highestScore, score)
    if (this.behaviour.waitsForTrust && !this.isCheating && score > 0.8) {
      this.isCheating = true
      this.cheatsFromMs = nowMs
    }
    this.proof = provenBy(this.evidence.signals)
    if (this.proof.length === 0) return
    this.auditsToQuarantine = this.auditsSinceCheat
    this.quarantinedMs = nowMs
  }

  scoreAt(nowMs: number): number {
    const { reliability, conformance } = sumCustomers([...this.customers.values()], nowMs)
    const { honesty, audits } = this.evidence
    return trustScore({
      ...{ reliability, conformance, honesty, audits, requests: this.requests },
      ageMs: nowMs - this.joinedMs,
      // One hoster only may hold a domain and a payout identity, so a hoster that registers again has none.
      standing: this.registration === 0 ? 'verified' : 'unverified',
      isQuarantined: !this.isActive,
    }).score
  }
}
