import type { ApiError } from '../../base/domain/errors.ts'
import type { CreateEvent } from '../../wire/dialects/responses/client-event.ts'
import type { Running } from '../in-flight.ts'
import type { KeptResponse } from './kept-responses.ts'

/** One request for a response, from its message to its last event. */
export interface Turn {
  readonly streamId: string | null
  /** Null when it is refused. */
  readonly create: CreateEvent | null
  readonly refusal: ApiError | null
  readonly data: Buffer
  /** Pays for the message until the request runs, which has an account of its own. */
  readonly account: Running
}

/** The turns of one `stream_id`: they run one after another, and the last answer can be continued. */
export class ResponseLane {
  readonly waiting: Turn[] = []
  isRunning = false
  kept: KeptResponse | null = null
}
