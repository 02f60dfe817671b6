import type { Caller } from '../../base/domain/caller.ts'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { ProviderKind } from '../../base/domain/offer.ts'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'
import type { ClientDialect } from '../../wire/dialects/client-dialect.ts'
import type { WriteEvents } from '../relay/relay-stream.ts'
import type { SettlementWatch } from '../settle/settle.ts'

export interface CompletionRequest {
  readonly caller: Caller
  readonly job: ChatJob
  readonly requestId: string
  readonly dialect: ClientDialect
  readonly signal: CancelSignal
  /** Pays for the memory of the answer, until the request has ended. */
  readonly memory: ByteAccount
  /** Notified of the settlement of this request. */
  readonly watch?: SettlementWatch
}

/** The client's side of a streamed answer. Not used for whole answers. */
export interface EventSink {
  /** Called once, before the first events: sends the status and the headers that name the server. */
  open(servedBy: ServedBy, replayOf?: string): Promise<void>
  readonly write: WriteEvents
}

/**
 * The server that answered, for the response headers. `modelId` decides which API keys may receive a stored
 * answer.
 */
export interface ServedBy {
  readonly modelId: string
  readonly provider: ProviderKind
  readonly hosterId: string | null
  /** The value that `max_tokens` was lowered to; null when it was not lowered. */
  readonly maxTokens: number | null
  /** The body fields that this server did not get. */
  readonly droppedFields: readonly string[]
  /** The body fields that this server got with other values, because its vendor refuses those of the client. */
  readonly changedFields: readonly string[]
  /** Where a whole answer breaks the client's schema, of which the server got another. Absent: nowhere. */
  readonly schemaViolation?: string
}

/** The result of a request that was answered. */
export interface Served {
  readonly servedBy: ServedBy
  /** The id of the earlier request with the same Idempotency-Key, when its answer is repeated. */
  readonly replayOf?: string
  /** Null for a stream, which was written to its EventSink. */
  readonly whole: { readonly body: string; readonly costNanos: Nanos } | null
}
