import { ApiError } from '../../../base/domain/errors.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { invalidField } from '../json/body-refusal.ts'
import { parseResponsesBody } from './responses-request.ts'

/** A `response.create` of a client on a WebSocket. */
export interface CreateEvent {
  /** Names the lane in which it runs; null for the one without a name. */
  readonly streamId: string | null
  /** The response that it continues; null if it begins a conversation. */
  readonly previousResponseId: string | null
  /** False: the client only announces what it will ask. */
  readonly generates: boolean
  /** The body of the request to `POST /v1/responses` that asks for the same. */
  readonly body: JsonObject
}

/** A message that is no event, or one that cannot be served. */
export interface RefusedEvent {
  readonly streamId: string | null
  readonly refusal: ApiError
}

const STREAM_ID = /^[\w.-]{1,256}$/

/** Reads one message of a client. Returns null if there is nothing to do. */
export function readClientEvent(data: Buffer): CreateEvent | RefusedEvent | null {
  let streamId: string | null = null
  try {
    const event = parseResponsesBody(data)
    streamId = readStreamId(event.stream_id)
    // Codex reports each response that it has processed.
    if (event.type === 'response.processed') return null
    if (event.type !== 'response.create') throw invalidField('type', 'response.create', event.type)
    return { streamId, ...readCreate(event) }
  } catch (error) {
    if (error instanceof ApiError) return { streamId, refusal: error }
    throw error
  }
}

function readStreamId(value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'string' && STREAM_ID.test(value)) return value
  throw invalidField('stream_id', '1 to 256 letters, digits, underscores, hyphens and periods', value)
}

function readCreate(event: JsonObject): Omit<CreateEvent, 'streamId'> {
  // A WebSocket has no use for the two stream fields, which clients send all the same.
  const { type, stream_id, stream, stream_options, previous_response_id: previous, generate, ...body } = event
  if (typeof previous !== 'string' && previous !== undefined && previous !== null) {
    throw invalidField('previous_response_id', 'the id of a response of this connection', previous)
  }
  if (typeof generate !== 'boolean' && generate !== undefined && generate !== null) {
    throw invalidField('generate', 'true or false', generate)
  }
  return { previousResponseId: previous ?? null, generates: generate !== false, body: { ...body, stream: true } }
}
