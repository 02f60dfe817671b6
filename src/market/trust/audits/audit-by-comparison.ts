import type { HosterOffer, Offer } from '../../../base/domain/offer.ts'
import { compareAnswer } from '../compare-answer.ts'
import { recordCompared } from '../evidence/compared-store.ts'
import type { AskOffer } from './ask-offer.ts'
import { askReferenceLike, isPlain } from './ask-reference.ts'
import type { RunningAudit } from './audit-deps.ts'
import { drawGapMs } from './draw-manners.ts'
import { type AuditText, drawText } from './draw-text.ts'
import type { PromptStock } from './prompt-stock.ts'
import type { Message } from './replay.ts'

/**
 * Sends a request to a hoster, or a conversation of up to four with its own answers in it, and asks a reference the
 * same. Each answer is one comparison. Returns how many requests the hoster got.
 */
export async function auditByComparison(
  deps: RunningAudit,
  stock: PromptStock,
  offer: HosterOffer,
  reference: Offer,
): Promise<number> {
  const askWriter = deps.beginVisit(null)
  const text = await drawText(deps, stock, offer, reference, askWriter)
  if (text === null) return 0
  const ask = deps.beginVisit(text.customerId)
  const askReference = text.customerId === null ? askWriter : deps.beginVisit(text.customerId)
  let history: readonly Message[] = []
  for (let requests = 0; ; requests++) {
    const more = await text.next(history)
    if (more === null) return requests
    if (requests > 0) await deps.pause(drawGapMs(deps))
    if (text.customerId !== null && !deps.shared.isShared(text.customerId)) return requests
    const messages = [...history, ...more]
    const body = { ...text.fields, messages }
    const own = await ask(offer, { ...body, ...text.identifiers })
    if (own === null) return requests
    if (isPlain(own)) await compare(deps, { text, offer, reference, askReference }, body, own.text)
    if (own.text === '') return requests + 1
    history = [...messages, { role: 'assistant', content: own.text }]
  }
}

interface Compared {
  readonly text: AuditText
  readonly offer: HosterOffer
  readonly reference: Offer
  readonly askReference: AskOffer
}

async function compare(
  { pool, clock }: RunningAudit,
  { text, offer, reference, askReference }: Compared,
  body: Readonly<Record<string, unknown>>,
  own: string,
): Promise<void> {
  const temperature = typeof body.temperature === 'number' ? body.temperature : undefined
  // Requests of which the answers tell nothing are sent too: a hoster that gets no others knows them by that.
  const answers = await askReferenceLike(body, asked => askReference(reference, asked))
  if (!answers.every(isPlain)) return
  const comparison = compareAnswer(own, answers, temperature)
  if (comparison === null) return
  const { source, customerId } = text
  const hosterId = offer.endpoint.hosterId
  await recordCompared(pool, {
    ...comparison,
    hosterId,
    modelId: offer.modelId,
    source,
    customerId,
    atMs: clock.epochMs(),
  })
}
