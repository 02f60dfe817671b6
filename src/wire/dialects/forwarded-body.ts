import type { ChatJob, ExtraField } from '../../base/domain/chat-job.ts'
import type { Offer } from '../../base/domain/offer.ts'
import type { JsonObject } from '../../base/runtime/json-object.ts'

/** Returns the forwarded fields of a job, without those that the server of this offer rejects. */
export function forwardedBody(job: ChatJob, offer: Offer): JsonObject {
  const body: JsonObject = { model: offer.upstreamModel, ...job.forward }
  for (const field of job.extraFields) if (!isFor(field, offer)) delete body[field.name]
  for (const field of offer.quirks?.dropFields ?? []) delete body[field]
  for (const field of offer.endpoint.dialect.dropFields) delete body[field]
  return body
}

/** Whether the server of this offer gets a field that only some servers get. */
export function isFor({ name, kinds }: ExtraField, { endpoint }: Offer): boolean {
  return kinds.has(endpoint.kind) || endpoint.dialect.forwardFields.includes(name)
}
