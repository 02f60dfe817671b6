import type { RedactableText } from '../../base/domain/request-content.ts'
import { openSecret, sealSecret, UnreadableSecret } from '../../base/secrets/sealed-secret.ts'
import { ContentRecorder } from '../../money/usage/content/content-recorder.ts'
import type { OpenContent } from '../../money/usage/content/read-content.ts'
import type { OnServed } from '../../request/chat/complete.ts'
import { promptMessages } from '../../request/chat/prompt-messages.ts'
import { Redactor } from '../../wire/redaction/redactor.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Service } from './service.ts'

/** Prompts and answers of keys that record them. */
export interface Content {
  readonly open: OpenContent
  /** Null: the operator does not allow it. */
  readonly onServed: OnServed | null
}

/** What is recorded of a prompt, and of an answer, in UTF-16 units. */
const LENGTH_MAX = 64 * 1024
/** What is searched behind the place where a text is cut. Longer credentials are recognised by their beginning. */
const MARGIN = 16 * 1024

export function createContent(
  { config, masterKeys, scheduler, log, started }: ComposeContext,
  { general }: Database,
  { metrics, telemetry }: Pick<Service, 'metrics' | 'telemetry'>,
): Content {
  const owner = (ownerId: string) => ({ ownerId, purpose: 'request_content' as const })
  const open: OpenContent = (sealed, requestId) => {
    try {
      return openSecret(masterKeys, sealed, owner(requestId))
    } catch (error) {
      if (error instanceof UnreadableSecret) return null
      throw error
    }
  }
  if (!config.content.isAllowed) return { open, onServed: null }
  const redactor = new Redactor()
  started.defer(() => redactor.close())
  const recorder = new ContentRecorder({
    sql: general,
    redact: redactor.redact,
    seal: (text, requestId) => sealSecret(masterKeys, text, owner(requestId)),
    scheduler,
    clock: scheduler,
    onLost: metrics.contentLost,
    log,
  })
  started.defer(() => recorder.close())
  return {
    open,
    onServed({ caller, job, requestId }, _ticket, _receipt, { parts }) {
      if (!caller.access.recordsContent || job.constraints.privacyMode) return
      const { messages, isCut } = promptMessages(job, LENGTH_MAX)
      const { customerId } = caller
      const recorded = recorder.record({
        requestId,
        customerId,
        messages: messages.map(message => ({ ...message, ...withMargin(message) })),
        answer: keptParts(parts()).map(withMargin),
        isCut,
      })
      telemetry?.awaitContent(requestId, recorded)
    },
  }
}

function keptParts(parts: readonly string[]): RedactableText[] {
  let left = LENGTH_MAX
  return parts.map(text => {
    const length = Math.min(text.length, left)
    left -= length
    return { text, length }
  })
}

/** Leaves out what is neither kept nor near enough to matter. A text that is cut stays longer than what is kept of it. */
function withMargin({ text, length }: RedactableText): RedactableText {
  return { text: text.slice(0, length + MARGIN), length }
}
