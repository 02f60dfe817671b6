import { type Pool, transaction } from '../../db/pool.ts'
import { type Offer, serves } from '../../domain/offer.ts'
import type { OwnCanary } from '../../domain/own-canary.ts'
import type { Clock } from '../../runtime/clock.ts'
import { answerDistance, PERMUTATIONS, sameModelPValue } from '../answer-distance.ts'
import { type Canary, isCanaryAnswered, makeCanary, ownCanary } from '../canary.ts'
import { auditCanaries, needsAnotherCanary } from '../canary-audit.ts'
import { type AuditPlan, chooseAudit } from '../choose-audit.ts'
import { comparePanel, type Panellist } from '../compare-panel.ts'
import { extremeEValues } from '../e-values.ts'
import {
  type AuditRow,
  canaryRecordOfOthers,
  earlierDistances,
  insertAudit,
  insertReferenceCanary,
  isCompared,
} from '../evidence/audit-store.ts'
import { lockTrust, readTrust, writeTrust } from '../evidence/trust-store.ts'
import { addAudit } from '../hoster-evidence.ts'
import type { AskedAnswer, AskOffer } from './ask-offer.ts'
import { openingBody } from './openings.ts'
import type { RelatedCustomers } from './related-customers.ts'
import type { RecentManners, SharedRequests } from './shared-requests.ts'

export interface AuditDeps {
  readonly pool: Pool
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** The offers that are live now. */
  readonly offers: () => readonly Offer[]
  readonly ask: AskOffer
  /** Names of endpoints that serve as references, besides local servers. Null: all clouds. */
  readonly references: readonly string[] | null
  /** Prompts of the operator. */
  readonly ownCanaries: readonly OwnCanary[]
  readonly shared: SharedRequests
  readonly manners: RecentManners
  readonly relatedCustomers: RelatedCustomers
}

/** The number of other hosters in a panel. */
export const PANEL_OTHERS = 3
/** A panel asks so many prompts: one answer says little, since answers of one model part ways too. */
export const PANEL_PROMPTS = 4
/** Answers of each side in a test of sampled answers. */
export const SAMPLES = 8
/** The part of the canaries that the reference gets too. */
const REFERENCE_PART = 0.3

/**
 * Audits one endpoint once, with requests that look like those of customers. An endpoint that does not answer is not audited: its
 * reliability is measured by the requests of customers.
 */
export async function auditEndpoint(deps: AuditDeps, endpointId: string): Promise<void> {
  const { random } = deps
  const own = deps
    .offers()
    .filter(({ endpoint, ...offer }) => endpoint.endpointId === endpointId && serves(offer, 'chat'))
  const offer = own[Math.floor(random() * own.length)]
  if (offer === undefined) return
  const peers = peersOf(deps, offer)
  const { reference, hosters } = peers
  const { signals } = (await readTrust(deps.pool, offer.endpoint.hosterId!)).evidence
  const needsComparison =
    reference !== undefined && !(await isCompared(deps.pool, offer.endpoint.hosterId!, offer.modelId))
  const available = { hasReference: reference !== undefined, hosters: hosters.length, needsComparison }
  const plan = chooseAudit(signals, available, random)
  if (plan.kind === 'sampling') return auditBySamples(deps, offer, reference!)
  return plan.kind === 'canary' ? auditByCanaries(deps, offer, reference) : auditByPanel(deps, offer, peers, plan)
}

interface Peers {
  readonly reference: Offer | undefined
  readonly hosters: readonly Offer[]
}

/** Returns the other servers of the same model. */
export function peersOf(
  { offers, references }: Pick<AuditDeps, 'offers' | 'references'>,
  { modelId, endpoint: { hosterId } }: Offer,
): Peers {
  const others = offers().filter(other => other.modelId === modelId && other.endpoint.hosterId !== hosterId)
  const isReference = ({ endpoint: { kind, endpointId, demo } }: Offer) =>
    !demo && kind !== 'hoster' && (kind === 'local' || (references?.includes(endpointId) ?? true))
  return {
    reference: others.filter(isReference).toSorted(byCost)[0],
    hosters: others.filter(({ endpoint }) => endpoint.kind === 'hoster'),
  }
}

/** Own servers first, then the cheapest cloud: audits have a budget. */
function byCost(a: Offer, b: Offer): number {
  const isCloud = ({ endpoint }: Offer) => Number(endpoint.kind === 'cloud')
  return isCloud(a) - isCloud(b) || Number(a.price.outputPicoPerToken - b.price.outputPicoPerToken)
}

async function auditByCanaries(deps: AuditDeps, offer: Offer, reference: Offer | undefined): Promise<void> {
  const { pool, clock, random } = deps
  const answered: boolean[] = []
  do {
    const canary = drawCanary(deps, offer.modelId)
    const answer = await deps.ask(offer, canaryBody(canary))
    if (answer === null) return
    answered.push(isCanaryAnswered(canary, answer.text))
    if (reference !== undefined && random() < REFERENCE_PART) {
      const known = await deps.ask(reference, canaryBody(canary))
      if (known !== null)
        await insertReferenceCanary(pool, offer.modelId, !isCanaryAnswered(canary, known.text), clock.epochMs())
    }
  } while (needsAnotherCanary(answered))
  const hosterId = offer.endpoint.hosterId!
  const { eValues, hasPassed } = auditCanaries(answered, await canaryRecordOfOthers(pool, offer.modelId, hosterId))
  await record(deps, [
    {
      ...{ hosterId, modelId: offer.modelId, kind: 'canary', eValues, hasPassed, atMs: clock.epochMs() },
      statistic: answered.filter(isAnswered => !isAnswered).length,
      sample: answered.length,
    },
  ])
}

/** Where the operator has prompts of its own for a model, half of the canaries are made of them. */
function drawCanary({ ownCanaries, random }: AuditDeps, modelId: string): Canary {
  const own = ownCanaries.filter(({ models }) => models === undefined || models.includes(modelId))
  const drawn = own[Math.floor(random() * own.length)]
  return drawn !== undefined && random() < OWN_PART ? ownCanary(drawn, random) : makeCanary(random)
}

const OWN_PART = 0.5

function canaryBody({ messages, maxTokens, temperature, stream }: Canary): object {
  return {
    messages,
    max_tokens: maxTokens,
    ...(temperature !== undefined && { temperature }),
    ...(stream && { stream }),
  }
}

/** The same prompts at temperature 0 to several servers of the model. A server that leaves one unanswered is not compared. */
async function auditByPanel(
  deps: AuditDeps,
  offer: Offer,
  { reference, hosters }: Peers,
  { hasLogprobs }: AuditPlan,
): Promise<void> {
  const { pool, clock, random } = deps
  const bodies = Array.from({ length: PANEL_PROMPTS }, () => panelBody(random, hasLogprobs))
  const asked = [offer, ...shuffled(hosters, random).slice(0, PANEL_OTHERS), ...(reference ? [reference] : [])]
  const answers = await Promise.all(asked.map(server => askAll(deps, server, bodies)))
  const panel: Panellist<readonly AskedAnswer[]>[] = asked.flatMap((server, at) => {
    const answer = answers[at] ?? null
    return answer === null ? [] : [{ hosterId: server.endpoint.hosterId, answer }]
  })
  const isFingerprint = panel.every(({ answer }) => answer.every(({ topTokens }) => topTokens.length > 0))
  const kind = isFingerprint ? 'fingerprint' : 'agreement'
  const distanceOf = (a: readonly AskedAnswer[], b: readonly AskedAnswer[]) =>
    answerDistance(a, b, isFingerprint ? 'distributions' : 'texts')
  const results = comparePanel(panel, distanceOf, await earlierDistances(pool, offer.modelId, kind))
  await record(
    deps,
    results.map(({ hosterId, distance, eValues, hasPassed }) => ({
      ...{ hosterId, modelId: offer.modelId, kind, eValues, hasPassed, atMs: clock.epochMs() },
      statistic: distance.overall,
      worst: distance.worst,
      sample: panel.length - 1,
    })),
  )
}

function panelBody(random: () => number, hasLogprobs: boolean): object {
  return {
    ...openingBody(random),
    ...{ temperature: 0, max_tokens: 24 + Math.floor(random() * 40) },
    ...(random() < 0.5 && { stream: true }),
    ...(hasLogprobs && { logprobs: true, top_logprobs: 5 }),
  }
}

/** Asks one prompt after the other, each as another customer. Null if one is not answered. */
async function askAll(
  { ask }: AuditDeps,
  server: Offer,
  bodies: readonly object[],
): Promise<readonly AskedAnswer[] | null> {
  const answers: AskedAnswer[] = []
  for (const body of bodies) {
    const answer = await ask(server, body)
    if (answer === null) return null
    answers.push(answer)
  }
  return answers
}

/** Several answers to one prompt at temperature 1, from the hoster and from the reference. */
async function auditBySamples(deps: AuditDeps, offer: Offer, reference: Offer): Promise<void> {
  const { clock, random, ask } = deps
  const body = { ...openingBody(random), temperature: 1, max_tokens: 32 }
  const [own, known]: [string[], string[]] = [[], []]
  for (let at = 0; at < SAMPLES; at++) {
    const answers = await Promise.all([ask(offer, body), ask(reference, body)])
    if (answers[0] === null || answers[1] === null) return
    own.push(answers[0]!.text)
    known.push(answers[1]!.text)
  }
  const pValue = sameModelPValue(own, known, random)
  await record(deps, [
    {
      ...{ hosterId: offer.endpoint.hosterId!, modelId: offer.modelId, kind: 'sampling', atMs: clock.epochMs() },
      ...{
        eValues: extremeEValues(pValue, PERMUTATIONS),
        hasPassed: pValue > SAMPLING_FAILED_P,
        statistic: pValue,
        sample: 2 * SAMPLES,
      },
    },
  ])
}

/** An honest hoster fails one test of sampled answers in 250. */
export const SAMPLING_FAILED_P = 1 / 250

/** Adds the results to the evidence of their hosters, in one transaction. */
function record({ pool }: AuditDeps, rows: readonly AuditRow[]): Promise<void> {
  return transaction(pool, async sql => {
    const trusts = await lockTrust(sql, [...new Set(rows.map(({ hosterId }) => hosterId))].sort())
    for (const row of rows) {
      const trust = trusts.get(row.hosterId)!
      trusts.set(row.hosterId, { ...trust, evidence: addAudit(trust.evidence, row) })
      await insertAudit(sql, row)
    }
    for (const trust of trusts.values()) await writeTrust(sql, trust, rows[0]!.atMs)
  })
}

function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map(item => ({ item, key: random() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ item }) => item)
}
