import type { Seal } from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { readSeal, wrapSeal } from '../seal.ts'

/**
 * Encodes the seal of a tool call as Google's OpenAI layer does. Google's own pass unwrapped: the field says where they
 * are from, and that layer reads them.
 */
export function callSealField(seal: Seal | undefined): { extra_content?: JsonObject } {
  if (seal === undefined) return {}
  return { extra_content: { google: { thought_signature: wrapSeal(seal, 'google') } } }
}

/** Reads the seal of a tool call, or returns undefined. */
export function readCallSeal({ extra_content: extra }: JsonObject): Seal | undefined {
  const google = isJsonObject(extra) ? extra.google : undefined
  const signature = isJsonObject(google) ? google.thought_signature : undefined
  if (typeof signature !== 'string' || signature === '') return undefined
  return readSeal(signature, 'google') ?? undefined
}
