import type { RequestContent } from '../../base/domain/request-content.ts'
import { openSecret, sealSecret, UnreadableSecret } from '../../base/secrets/sealed-secret.ts'
import { ContentRecorder } from '../../money/usage/content/content-recorder.ts'
import type { OpenContent } from '../../money/usage/content/read-content.ts'
import type { OnServed } from '../../request/chat/complete.ts'
import { promptMessages } from '../../request/chat/prompt-messages.ts'
import { Redactor } from '../../wire/redaction/redactor.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** Prompts and answers of keys that record them. */
export interface Content {
  readonly open: OpenContent
  /** Null: the operator does not allow it. */
  readonly onServed: OnServed | null
}

/** What is recorded of a prompt, and of an answer, in UTF-16 units. */
const LENGTH_MAX = 64 * 1024

/** @param awaited notified before the content of a request is redacted, and again with it; null: it was not recorded */
export function createContent(
  { config, masterKeys, scheduler, log, started }: ComposeContext,
  { general }: Database,
  awaited: ((requestId: string, content: Promise<RequestContent | null>) => void) | undefined,
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
    redact: texts => redactor.redact(texts),
    seal: (text, requestId) => sealSecret(masterKeys, text, owner(requestId)),
    scheduler,
    clock: scheduler,
    log,
  })
  started.defer(() => recorder.close())
  return {
    open,
    onServed({ caller, job, requestId }, _ticket, _receipt, text) {
      if (!caller.access.recordsContent || job.constraints.privacyMode) return
      const { messages, isCut } = promptMessages(job, LENGTH_MAX)
      const whole = text()
      const answer = whole.slice(0, LENGTH_MAX)
      const { customerId } = caller
      const isAnyCut = isCut || answer.length < whole.length
      const recorded = recorder.record({ requestId, customerId, messages, answer, isCut: isAnyCut })
      awaited?.(requestId, recorded)
    },
  }
}
