import type { Caller } from '../../base/domain/caller.ts'
import { AUTO_MODEL } from '../../base/domain/chat-job.ts'
import { modelNotAllowed, unknownModel } from '../../base/domain/errors.ts'
import type { CompletionRequest, EventSink, Served } from '../../request/chat/completion-request.ts'
import type { MinuteLimiter } from '../../request/limits/minute-limiter.ts'
import { createEnvelope } from '../../wire/dialects/chat/upstream-request.ts'

interface WarmUpDeps {
  readonly hasModel: (id: string) => boolean
  /** Limits how often a customer may warm up: nobody is charged for it. */
  readonly limiter: Pick<MinuteLimiter, 'take'>
  readonly epochMs: () => number
}

/**
 * Returns the function that answers a request with `generate: false`: the events of a response without output. It asks
 * no server, and is free.
 */
export function createWarmUp(deps: WarmUpDeps): (request: CompletionRequest, events: EventSink) => Promise<Served> {
  return async ({ caller, job, requestId, dialect }, events) => {
    deps.limiter.take(caller.customerId, 'requests with generate: false')
    requireModel(deps, caller, job.model)
    const envelope = createEnvelope({ requestId, startedAtEpochMs: deps.epochMs() }, job.model)
    const servedBy = {
      modelId: job.model,
      provider: 'local',
      hosterId: null,
      maxTokens: null,
      droppedFields: [],
      changedFields: [],
    } as const
    await events.open(servedBy)
    const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
    await events.write(dialect.stream.encoder(envelope, job).end(usage))
    return { servedBy, whole: null }
  }
}

/** Throws unless the key may use the model. */
function requireModel({ hasModel }: WarmUpDeps, { access }: Caller, model: string): void {
  if (model === AUTO_MODEL) return
  if (!hasModel(model)) throw unknownModel(model)
  if (access.allowedModels !== null && !access.allowedModels.has(model)) throw modelNotAllowed(model)
}
