import type { HosterOffer, Offer } from '../../../base/domain/offer.ts'
import type { OwnCanary } from '../../../base/domain/own-canary.ts'
import { type Canary, isCanaryAnswered, makeCanary, ownCanary } from '../canary.ts'
import { auditCanaries, needsAnotherCanary } from '../canary-audit.ts'
import { canaryRecordOfOthers, insertReferenceCanary } from '../evidence/audit-store.ts'
import type { AskOffer } from './ask-offer.ts'
import type { AuditDeps, RunningAudit } from './audit-deps.ts'
import { drawFields } from './draw-manners.ts'
import { cleanText, sharesWords } from './grow-prompt.ts'
import { recordAudits } from './record-audits.ts'

/** Audits by canaries that have begun, by offer. A failed canary is followed by another one, but hours later. */
export type BegunCanaries = Map<string, { readonly answered: readonly boolean[]; readonly nextMs: number }>

/** When the next canary follows after a failure, ms: five minutes to five hours. At once would tell that it was one. */
const [NEXT_MS_MIN, NEXT_MS_MAX] = [300_000, 18_000_000]

/**
 * Sends one canary to a hoster, and records the audit when it is decided.
 *
 * @param reference rewrites the prompts of the operator, and must answer them right itself. Undefined: they are sent as written
 */
export async function auditByCanary(
  deps: RunningAudit,
  begun: BegunCanaries,
  offer: HosterOffer,
  reference: Offer | undefined,
): Promise<void> {
  const { pool, clock, random } = deps
  const canary = await drawCanary(deps, offer.modelId, reference)
  if (canary === null) return
  const body = canaryBody(canary, drawFields(deps))
  if (reference !== undefined && !(await isAnsweredBy(deps, reference, canary, body))) return
  const answer = await deps.beginVisit(null)(offer, body)
  if (answer === null) return
  const answered = [...(begun.get(offer.offerId)?.answered ?? []), isCanaryAnswered(canary, answer.text)]
  if (needsAnotherCanary(answered)) {
    const afterMs = NEXT_MS_MIN * (NEXT_MS_MAX / NEXT_MS_MIN) ** random()
    begun.set(offer.offerId, { answered, nextMs: clock.epochMs() + afterMs })
    return
  }
  begun.delete(offer.offerId)
  const hosterId = offer.endpoint.hosterId
  const { eValues, hasPassed } = auditCanaries(answered, await canaryRecordOfOthers(pool, offer.modelId, hosterId))
  await recordAudits(pool, [
    {
      hosterId,
      modelId: offer.modelId,
      kind: 'canary',
      eValues,
      hasPassed,
      atMs: clock.epochMs(),
      statistic: answered.filter(isAnswered => !isAnswered).length,
      sample: answered.length,
    },
  ])
}

/** Returns the prompts of the operator for a model. */
export function ownCanariesOf({ ownCanaries }: Pick<AuditDeps, 'ownCanaries'>, modelId: string): readonly OwnCanary[] {
  return ownCanaries.filter(({ models }) => models === undefined || models.includes(modelId))
}

async function drawCanary(
  deps: RunningAudit,
  modelId: string,
  reference: Offer | undefined,
): Promise<Pick<Canary, 'messages' | 'answers' | 'maxTokens'> | null> {
  const { random } = deps
  const own = ownCanariesOf(deps, modelId)
  const drawn = own[Math.floor(random() * own.length)]
  if (reference !== undefined)
    return drawn === undefined ? null : rewriteCanary(drawn, deps.beginVisit(null), reference)
  return drawn === undefined ? makeCanary(random) : ownCanary(drawn)
}

/** A drawn limit never cuts the answer. */
function canaryBody(
  { messages, maxTokens }: Pick<Canary, 'messages' | 'maxTokens'>,
  fields: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const { max_tokens: limit } = fields
  return { ...fields, messages, ...(typeof limit === 'number' && { max_tokens: Math.max(limit, maxTokens) }) }
}

/** The part of the canaries that the reference gets twice. */
const RECORDED_PART = 0.5

/**
 * Whether the reference answers a canary right, so that a failure of the hoster says something. A second answer of it
 * shows how often the model fails a canary that it has just passed.
 */
async function isAnsweredBy(
  { pool, clock, random, beginVisit }: RunningAudit,
  reference: Offer,
  canary: Pick<Canary, 'answers'>,
  body: Readonly<Record<string, unknown>>,
): Promise<boolean> {
  const { stream: _, ...plain } = body
  const ask = beginVisit(null)
  const known = await ask(reference, plain)
  if (known === null || !isCanaryAnswered(canary, known.text)) return false
  const again = random() < RECORDED_PART ? await ask(reference, plain) : null
  if (again !== null) {
    const hasFailed = !isCanaryAnswered(canary, again.text)
    await insertReferenceCanary(pool, reference.modelId, hasFailed, clock.epochMs())
  }
  return true
}

const INSTRUCTION =
  'Put the following request into quite other words: another beginning, another order, other words for all that can be said ' +
  'differently. What is asked for, and so the right answer, stays the same. Do not answer it. Answer with nothing but the new request.'

/** A rewritten prompt may have fewer words in a row of the written one than this. */
const SAME_WORDS = 5
const LENGTH_MAX = 12_000

/**
 * Lets a reference put a prompt of the operator into other words, with its instructions, as one message. A hoster that
 * has learned the prompt does not recognise it. Null: the reference did not, or it gave the answer away.
 */
async function rewriteCanary(
  { prompt, system, answers, maxTokens }: OwnCanary,
  ask: AskOffer,
  reference: Offer,
): Promise<Pick<Canary, 'messages' | 'answers' | 'maxTokens'> | null> {
  const written = system === undefined ? prompt : `${prompt}\n\n${system}`
  const messages = [{ role: 'user', content: `${INSTRUCTION}\n\n${written}` }]
  const answer = await ask(reference, { messages, temperature: 1, max_tokens: 1_500 })
  const content = answer === null ? '' : cleanText(answer.text)
  if (content === '' || content.length > LENGTH_MAX || isTooClose(content, prompt)) return null
  if (sharesWords(content, INSTRUCTION, SAME_WORDS)) return null
  if (isCanaryAnswered({ answers }, content) && !isCanaryAnswered({ answers }, prompt)) return null
  return { messages: [{ role: 'user', content }], answers, maxTokens }
}

/** Also a prompt of few words must not come back. */
function isTooClose(content: string, prompt: string): boolean {
  const words = prompt.match(/[\p{L}\p{N}]+/gu)?.length ?? 0
  return sharesWords(content, prompt, Math.max(1, Math.min(SAME_WORDS, words)))
}
