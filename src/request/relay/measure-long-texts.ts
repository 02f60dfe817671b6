import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Answer, Ticket } from '../../base/domain/handoff.ts'
import type { MeasureText } from '../../base/domain/text-length.ts'
import { SHORT_TEXT_UNITS } from '../../wire/tokens/estimate-tokens.ts'
import type { Delivered, MeasuredTexts } from './bill.ts'

/**
 * Measures the long texts that `bill` counts: those of hosters, and those without a report. Returns undefined
 * when there are none, which is the usual case.
 */
export function measureLongTexts(
  measureText: MeasureText,
  ticket: Ticket,
  job: ChatJob,
  { offer }: Answer,
  { outcome, reported, text, hasMedia, chargeInputOnly }: Delivered,
): Promise<MeasuredTexts> | undefined {
  if (outcome !== 'served' && outcome !== 'client_gone') return undefined
  if (text.length === 0 && !hasMedia && !chargeInputOnly) return undefined
  const isCounted = offer.endpoint.kind === 'hoster' || outcome === 'client_gone'
  const needsPrompt =
    ticket.promptLength === undefined &&
    job.promptTextBytes > SHORT_TEXT_UNITS &&
    (isCounted || !reported?.prompt_tokens)
  const needsOutput = text.length > SHORT_TEXT_UNITS && (isCounted || !reported?.completion_tokens)
  if (!needsPrompt && !needsOutput) return undefined
  const { customerId } = ticket.caller
  const measure = async (isNeeded: boolean, textOf: () => string) =>
    isNeeded ? ((await measureText(textOf(), customerId)) ?? undefined) : undefined
  return Promise.all([measure(needsPrompt, job.promptText), measure(needsOutput, () => text.toString())]).then(
    ([prompt, output]) => ({ prompt, output }),
  )
}
