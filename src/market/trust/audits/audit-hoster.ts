import { type HosterOffer, isOfHoster, type Offer, serves } from '../../../base/domain/offer.ts'
import { drawOne } from '../../../base/runtime/collections.ts'
import { type AuditKind, chooseAudit } from '../choose-audit.ts'
import { comparedModels } from '../evidence/audit-store.ts'
import { readTrust } from '../evidence/trust-store.ts'
import { auditByCanary, type BegunCanaries, ownCanariesOf } from './audit-by-canary.ts'
import { auditByComparison } from './audit-by-comparison.ts'
import { auditByPanel } from './audit-by-panel.ts'
import type { AuditDeps, RunningAudit } from './audit-deps.ts'
import { PromptStock } from './prompt-stock.ts'

/**
 * How much more often a model is audited until it was compared with the server of the operator often enough.
 * `scheduleAudits` plans so many more audits of its endpoint.
 */
export const COMPARED_SOONER = 4

/** Without a reference, so many others are needed: of two that differ, no one knows which is wrong. */
const OTHERS_MIN = 2

/**
 * Audits one endpoint once, with requests that look like those of customers. An endpoint that does not answer is not
 * audited: its reliability is measured by the requests of customers.
 */
export type AuditEndpoint = (endpointId: string, pause: RunningAudit['pause']) => Promise<void>

/** Creates the auditor of this process, which remembers grown prompts and canaries that have begun. */
export function createAuditor(deps: AuditDeps): AuditEndpoint {
  const stock = new PromptStock()
  const begun: BegunCanaries = new Map()
  /**
   * Requests of conversations beyond the first, by endpoint. Later audits are left out for them, so conversations make
   * audits no more frequent.
   */
  const ahead = new Map<string, number>()

  return async (endpointId, pause) => {
    const audit = { ...deps, pause }
    const drawn = await drawOffer(deps, endpointId)
    if (drawn === null) return
    const { offer, reference } = drawn
    const hosters = reference === undefined ? await strangersOf(deps, drawn) : drawn.hosters
    const { signals } = (await readTrust(deps.pool, offer.endpoint.hosterId)).evidence
    const kind = chooseAudit(signals, possibleAudits(deps, { ...drawn, hosters }, begun), deps.random)
    if (kind === 'canary') return auditByCanary(audit, begun, offer, reference)
    if (kind === 'panel') return auditByPanel(audit, offer, hosters)
    if (kind === undefined || reference === undefined) return
    const owed = ahead.get(endpointId) ?? 0
    if (owed > 0) {
      ahead.set(endpointId, owed - 1)
      return
    }
    const requests = await auditByComparison(audit, stock, offer, reference)
    ahead.set(endpointId, (ahead.get(endpointId) ?? 0) + Math.max(0, requests - 1))
  }
}

/**
 * Returns what can be audited. Built-in canaries are recognised, so they are sent only where nothing else is possible.
 * After a failure the next canary waits, then it comes first.
 */
function possibleAudits(
  deps: AuditDeps,
  { offer, reference, hosters }: DrawnOffer,
  begun: BegunCanaries,
): readonly AuditKind[] {
  const comparisons: AuditKind[] = []
  if (reference !== undefined) comparisons.push('comparison')
  else if (hosters.length >= OTHERS_MIN) comparisons.push('panel')
  if (comparisons.length === 0) return ['canary']
  const waiting = begun.get(offer.offerId)
  if (waiting !== undefined) return waiting.nextMs <= deps.clock.epochMs() ? ['canary'] : comparisons
  return ownCanariesOf(deps, offer.modelId).length > 0 ? [...comparisons, 'canary'] : comparisons
}

/** Returns an offer of each other group of hosters, since related ones would answer for each other. */
async function strangersOf(
  { relatedHosters, random }: AuditDeps,
  { offer, hosters }: DrawnOffer,
): Promise<HosterOffer[]> {
  const groups = await relatedHosters.groups([offer, ...hosters].map(({ endpoint }) => endpoint.hosterId))
  const groupOf = ({ endpoint }: HosterOffer) => groups.get(endpoint.hosterId)
  const others = Map.groupBy(
    hosters.filter(other => groupOf(other) !== groupOf(offer)),
    groupOf,
  )
  return [...others.values()].map(ofGroup => drawOne(ofGroup, random))
}

interface DrawnOffer {
  readonly offer: HosterOffer
  readonly reference: Offer | undefined
  /** Other hosters of the model. */
  readonly hosters: readonly HosterOffer[]
}

/** Draws an offer of an endpoint, those that were compared too little more often. Null: it has none. */
async function drawOffer(deps: AuditDeps, endpointId: string): Promise<DrawnOffer | null> {
  const own = deps
    .offers()
    .filter(isOfHoster)
    .filter(({ endpoint, ...offer }) => endpoint.endpointId === endpointId && serves(offer, 'chat'))
    .map(offer => ({ offer, ...peersOf(deps, offer) }))
  const [first] = own
  if (first === undefined) return null
  const compared = await comparedModels(deps.pool, first.offer.endpoint.hosterId)
  const weighted = own.flatMap(each => {
    const needsComparison = each.reference !== undefined && !compared.has(each.offer.modelId)
    return Array<DrawnOffer>(needsComparison ? COMPARED_SOONER : 1).fill(each)
  })
  return drawOne(weighted, deps.random)
}

/**
 * Returns the other servers of the same model. A reference that is away gives way to another one. While all are, audits
 * wait: the hoster would recognise what is sent where there is none.
 */
export function peersOf(
  { offers, references, isAway }: Pick<AuditDeps, 'offers' | 'references' | 'isAway'>,
  offer: Offer,
): Omit<DrawnOffer, 'offer'> {
  const { modelId, endpoint } = offer
  const others = offers().filter(other => other.modelId === modelId && other.endpoint.hosterId !== endpoint.hosterId)
  return {
    reference: others
      .filter(other => isReference(other, references))
      .toSorted((a, b) => Number(isAway(a)) - Number(isAway(b)) || byCost(a, b))[0],
    hosters: others.filter(isOfHoster).filter(other => serves(other, 'chat')),
  }
}

/** Whether an offer is of a server that the operator trusts to serve the true model. */
export function isReference(offer: Offer, references: AuditDeps['references']): boolean {
  const { kind, endpointId, demo } = offer.endpoint
  if (demo || kind === 'hoster' || !serves(offer, 'chat')) return false
  return kind === 'local' || (references?.includes(endpointId) ?? true)
}

/** Own servers first, then the cheapest cloud: audits have a budget. */
function byCost(a: Offer, b: Offer): number {
  const isCloud = ({ endpoint }: Offer) => Number(endpoint.kind === 'cloud')
  return isCloud(a) - isCloud(b) || Number(a.price.outputPicoPerToken - b.price.outputPicoPerToken)
}
