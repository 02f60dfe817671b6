import type { Caller } from '../../base/domain/caller.ts'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Exclusion, Ticket } from '../../base/domain/handoff.ts'
import type { CustomerBreakers, HealthView } from '../../base/domain/health.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { affordableTokensAt, heldNanos, outputCap, USEFUL_TOKENS_MIN } from '../../base/domain/request-bounds.ts'
import type { MeasureText } from '../../base/domain/text-length.ts'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Catalog } from '../../market/supply/catalog/catalog.ts'
import { pricedCatalog } from '../../market/supply/catalog/priced-catalog.ts'
import type { Admission, AdmissionResult } from '../../money/ledger/leases/admission.ts'
import type { WindowView } from '../../money/ledger/leases/rate-windows.ts'
import type { Ledger } from '../../money/ledger/ledger.ts'
import { candidatesFor, eligible } from './eligible.ts'
import { explainExclusions } from './explain-exclusions.ts'
import { budgetNanos, refusal } from './refusal.ts'

export interface AdmitDeps {
  readonly catalog: () => Catalog
  readonly health: CustomerBreakers
  readonly ledger: Pick<Ledger, 'admit' | 'refusalOf' | 'leaseLeftNanos'>
  readonly windows: Pick<WindowView, 'remember'>
  readonly clock: Clock
  readonly measureText: MeasureText
  /** Output tokens per choice of a request without max_tokens. */
  readonly defaultMaxTokens: number
  /** How long a request may wait for credit that running requests of its customer hold, ms. */
  readonly creditWaitMs: number
}

/**
 * Decides whether a request may run. Finds its eligible offers, then counts the request against its windows
 * and holds its worst-case cost: in memory from a bulk lease, or in one round trip. Waits in line for credit that running
 * requests of the customer hold, until `signal` is aborted. Throws 403
 * `model_not_allowed`, 404 `model_not_found`, 400 `context_length_exceeded`, `feature_not_supported` or
 * `max_cost_too_low`, 500 `no_eligible_offer`, 429, 402 or 503. The returned ticket holds money and must be settled.
 */
export async function admit(
  deps: AdmitDeps,
  caller: Caller,
  asked: ChatJob,
  requestId: string,
  signal: CancelSignal,
): Promise<Ticket> {
  const startedAtEpochMs = deps.clock.epochMs()
  const startedMonotonicMs = deps.clock.monotonicMs()
  const health = deps.health.of(caller.customerId)
  let job = asked
  let found: Found
  try {
    if (isLong(job) && job.maxCostNanos !== null) job = await measured(deps, caller, job, requestId)
    found = supplyFor(job, caller.access.allowedModels, pricedFor(deps.catalog(), caller), health)
  } catch (refused) {
    // A valid request counts against the windows even when it is refused. If a window is used up, that error is the
    // more useful one.
    await countRequest(deps, caller, job, requestId)
    throw refused
  }

  const { candidates, supply } = found
  let ask = holdFor(supply.eligible, job, deps.defaultMaxTokens)
  if (isLong(job) && !hasAmpleLease(deps, caller, ask.wantNanos)) {
    job = await measured(deps, caller, job, requestId)
    ask = holdFor(supply.eligible, job, deps.defaultMaxTokens)
  }
  const { wantNanos, floorNanos, maxTokens, clampedBy } = ask
  const creditWait = { forMs: creditWaitMs(deps, job), signal }
  const admission = { ...admissionOf(caller, job, requestId, { wantNanos, floorNanos }), creditWait }
  const result = await requestHold(deps, admission)
  failpoint('admission-answered')
  const affordable = (budgetNanos: Nanos) => {
    const offersFor = (maxTokens: number) => eligible(candidates, { ...job, maxTokens }, health).eligible
    return affordableTokens(supply.eligible, offersFor, job, budgetNanos)
  }
  const { hold, waitedMs } = holdOf(deps, admission, job, affordable, result)!
  // A hold that is smaller than requested limits the answer to the tokens that it pays for.
  const paidTokens = hold.nanos < wantNanos ? maxTokensFor(supply.eligible, job, hold.nanos) : maxTokens
  return {
    requestId,
    hold,
    caller,
    label: job.label ?? caller.access.label,
    startedAtEpochMs,
    startedMonotonicMs,
    ...supply,
    maxTokens: paidTokens,
    clamp: clampOf(job, maxTokens, paidTokens, clampedBy),
    promptLength: job.promptLength,
    creditWaitedMs: Math.round(waitedMs ?? 0),
  }
}

/** Returns how long a request may wait for credit: not longer than its answer may take. */
function creditWaitMs(deps: AdmitDeps, { creditWaitMsMax, constraints }: ChatJob): number {
  return Math.min(deps.creditWaitMs, creditWaitMsMax ?? Infinity, constraints.maxLatencyMs ?? Infinity)
}

/** Shorter prompts are held by their bytes: the output usually costs more. */
const MEASURED_BYTES_MIN = 4_096

/**
 * Whether measuring the prompt may lower its hold. By bytes, English is held at four times its cost, and Thai at
 * seven times: a prompt of 40 kB would be refused, or keep other requests out, while most of its hold comes back.
 */
export function isLong({ promptTextBytes, promptLength }: ChatJob): boolean {
  return promptTextBytes >= MEASURED_BYTES_MIN && promptLength === undefined
}

/**
 * Whether a bulk lease on this node holds several times `wantNanos`, so that measuring is not worth its time. Keys
 * and members with a spend limit use no bulk lease.
 */
function hasAmpleLease({ ledger }: AdmitDeps, { customerId, access }: Caller, wantNanos: Nanos): boolean {
  return access.limit === null && access.memberLimit === null && ledger.leaseLeftNanos(customerId) >= wantNanos * AMPLE
}

const AMPLE = 4n

/**
 * Returns the job with the length of its prompt, or unchanged when it cannot be measured now. Throws 429 when the
 * caller has used up a window.
 */
export async function measured(deps: AdmitDeps, caller: Caller, job: ChatJob, requestId: string): Promise<ChatJob> {
  refuseExhausted(deps, caller, job, requestId)
  const promptLength = await deps.measureText(job.promptText(), caller.customerId)
  return promptLength === null ? job : { ...job, promptLength }
}

function clampOf(
  { maxTokens: asked }: ChatJob,
  wanted: number,
  allowed: number,
  clampedBy: HoldRequest['clampedBy'],
): Ticket['clamp'] {
  // A caller that sent no max_tokens asked for no particular length, so a smaller hold is not reported.
  if (asked !== null && allowed < wanted) return { asked, by: 'on_insufficient' }
  return clampedBy === undefined ? null : { asked, by: clampedBy }
}

/**
 * Counts a request that will not run against the windows of its caller. Throws 429 when a window is used up,
 * or 503.
 */
export async function countRequest(deps: AdmitDeps, caller: Caller, job: ChatJob, requestId: string): Promise<void> {
  const admission = admissionOf(caller, job, requestId, null)
  holdOf(deps, admission, job, noTokens, await requestHold(deps, admission))
}

/** Throws 429 when this node knows that a window of the caller is used up. Counts nothing and sends no query. */
export function refuseExhausted(deps: AdmitDeps, caller: Caller, job: ChatJob, requestId: string): void {
  const admission = admissionOf(caller, job, requestId, null)
  const refused = deps.ledger.refusalOf(admission)
  if (refused !== undefined) holdOf(deps, admission, job, noTokens, refused)
}

function admissionOf(caller: Caller, job: ChatJob, requestId: string, ask: Admission['ask']): Admission {
  const { customerId, keyId, limits, access } = caller
  const { limit: keyLimit, memberLimit } = access
  return { requestId, customerId, keyId, modelId: job.model, limits, keyLimit, memberLimit, ask }
}

/** The affordable tokens of a request that is only counted. */
const noTokens = () => 0

/** Returns the catalog at the prices of the caller. */
export function pricedFor(catalog: Catalog, { prices }: Caller): Catalog {
  return prices === null ? catalog : pricedCatalog(catalog, prices)
}

interface Found {
  /** Every offer that was considered. */
  readonly candidates: readonly Offer[]
  readonly supply: Supply
}

/** The part of a ticket that depends on the catalog and on health. */
interface Supply {
  readonly models: readonly string[]
  readonly eligible: readonly Offer[]
  readonly excluded: readonly Exclusion[]
}

function supplyFor(
  job: ChatJob,
  allowedModels: ReadonlySet<string> | null,
  catalog: Catalog,
  health: HealthView,
): Found {
  const { models, offers } = candidatesFor(catalog, job, allowedModels)
  const choice = eligible(offers, job, health)
  if (choice.eligible.length === 0) throw explainExclusions(choice.excluded, offers, job)
  return { candidates: offers, supply: { models, ...choice } }
}

/** Counts the request and places its hold. */
function requestHold({ ledger }: AdmitDeps, admission: Admission): Promise<AdmissionResult> {
  failpoint('admission-begun')
  return ledger.admit(admission)
}

/** Returns the grant, or null when no hold was requested. Throws the refusal. */
function holdOf(
  { windows, clock }: AdmitDeps,
  admission: Admission,
  job: ChatJob,
  affordable: (budgetNanos: Nanos) => number,
  result: AdmissionResult,
): Extract<AdmissionResult, { kind: 'granted' }> | null {
  windows.remember(admission.customerId, result.windows)
  if (result.kind === 'granted') return result
  if (result.kind === 'counted') return null
  throw refusal(result, admission, job, affordable(budgetNanos(result)), clock.epochMs())
}

export interface HoldRequest {
  /** Pays for `maxTokens` at the most expensive candidate. */
  readonly wantNanos: Nanos
  /**
   * The smallest useful hold: the prompt and a few tokens. Equal to `wantNanos` when the caller's limit must
   * not be lowered.
   */
  readonly floorNanos: Nanos
  /** Per choice. */
  readonly maxTokens: number
  /** Why `maxTokens` is lower than requested; absent when it is the requested number or the default. */
  readonly clampedBy?: 'max_cost_usd' | 'model'
}

/**
 * Computes the money to hold: the worst case over every candidate, including fallbacks, so that no retry can
 * cost more than the hold. Dispatch requests at most `outputCap(offer, job, maxTokens)` tokens from each offer.
 *
 * @param offers at least one; each can generate a token within the job's `maxCostNanos`, which the hold never
 *   exceeds
 * @param defaultMaxTokens output tokens per choice of a job without a limit. Both are lowered when no offer can
 *   generate that many
 */
export function holdFor(offers: readonly Offer[], job: ChatJob, defaultMaxTokens: number): HoldRequest {
  const wantedTokens = job.maxTokens ?? (job.isLimitOpen ? Number.POSITIVE_INFINITY : defaultMaxTokens)
  const askedTokens = Math.max(...offers.map(offer => outputCap(offer, job, wantedTokens)))
  const paidTokens = job.maxCostNanos === null ? askedTokens : maxTokensFor(offers, job, job.maxCostNanos)
  const maxTokens = Math.min(askedTokens, paidTokens)
  const wantNanos = highestCost(offers, job, maxTokens)
  const mayHoldLess = job.maxTokens === null || job.onInsufficient === 'clamp'
  const floorNanos = mayHoldLess ? highestCost(offers, job, Math.min(fewestUsefulTokens(job), maxTokens)) : wantNanos
  if (maxTokens < askedTokens) return { wantNanos, floorNanos, maxTokens, clampedBy: 'max_cost_usd' }
  if (job.maxTokens !== null && maxTokens < job.maxTokens) {
    return { wantNanos, floorNanos, maxTokens, clampedBy: 'model' }
  }
  return { wantNanos, floorNanos, maxTokens }
}

/**
 * Returns the most output tokens per choice that `budgetNanos` pays for at every candidate, rounded down; 0
 * when it does not pay for one, and Infinity when it pays for all that the candidates generate.
 */
export function maxTokensFor(offers: readonly Offer[], job: ChatJob, budgetNanos: Nanos): number {
  let most = Number.POSITIVE_INFINITY
  for (const offer of offers) {
    const tokens = affordableTokensAt(offer, job, budgetNanos)
    const affordable = Math.max(0, Math.floor(tokens / job.choices))
    if (affordable < outputCap(offer, job, most)) most = affordable
  }
  return most
}

/**
 * Returns the most output tokens per choice with which the job would be admitted for `budgetNanos`; 0 when
 * not even one token fits. A job with fewer tokens may become eligible for more offers, and its hold must
 * cover those too, even if they are more expensive.
 *
 * @param offers the offers that may serve the job unchanged
 * @param offersFor returns the offers that may serve the job with this many tokens
 */
export function affordableTokens(
  offers: readonly Offer[],
  offersFor: (maxTokens: number) => readonly Offer[],
  job: ChatJob,
  budgetNanos: Nanos,
): number {
  // Fewer tokens do not help a job that generates none.
  if (job.choices === 0) return 0
  // A job without a limit is refused only when the fewest useful tokens do not fit.
  let tokens = Math.min(maxTokensFor(offers, job, budgetNanos), job.maxTokens ?? fewestUsefulTokens(job))
  while (tokens > 0) {
    const serving = offersFor(tokens)
    // `serving` is empty when not even this many tokens fit into a context; a job without a limit is admitted
    // even then. With a limit, each step adds an offer.
    const fits = serving.length === 0 ? tokens - 1 : Math.min(tokens, maxTokensFor(serving, job, budgetNanos))
    if (fits === tokens) break
    tokens = fits
  }
  return tokens
}

function fewestUsefulTokens(job: ChatJob): number {
  return job.outputFloorTokens ?? USEFUL_TOKENS_MIN
}

function highestCost(offers: readonly Offer[], job: ChatJob, maxTokens: number): Nanos {
  let most = 0n
  for (const offer of offers) {
    const cost = heldNanos(offer, job, outputCap(offer, job, maxTokens) * job.choices)
    if (cost > most) most = cost
  }
  return most
}
