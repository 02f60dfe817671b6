import { isJsonObject, type JsonObject } from '../../base/runtime/json-object.ts'
import { InvalidEvent } from './payment-driver.ts'

/** Parses the body of an event whose signature was checked. Throws InvalidEvent unless it is an object. */
export function parseEvent(rawBody: Buffer): JsonObject {
  const event = parseJson(rawBody)
  if (isJsonObject(event)) return event
  throw new InvalidEvent()
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    throw new InvalidEvent()
  }
}

/** Whether a value can be what a provider calls something by. PostgreSQL cannot store every other text. */
export function isProviderRef(value: unknown): value is string {
  return typeof value === 'string' && /^[\w.-]{1,255}$/.test(value)
}
