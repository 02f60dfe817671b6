import type { Seal } from '../../../base/domain/conversation.ts'
import { type CarriedSeal, isWrappedSeal, type SealReader, wrapSeal } from '../seal.ts'

/** The base64 of `sy1.`, which starts every wrapped seal, without its last character. */
const WRAPPED_START = 'c3kxL'

/**
 * Writes a seal as a `thoughtSignature`. Clients decode it as base64, so wrapped seals are encoded once more.
 *
 * @param hiddenText for the family `text`: the reasoning
 */
export function geminiSignature(seal: Seal, hiddenText = ''): string {
  const text = wrapSeal(seal, 'google', hiddenText)
  return text === seal.data ? text : Buffer.from(text).toString('base64')
}

/** Reads a `thoughtSignature` that a client sent back. Null for a wrapped one that is invalid. */
export function readGeminiSignature(signature: string, seals: SealReader): CarriedSeal | null {
  const text = signature.startsWith(WRAPPED_START) ? Buffer.from(signature, 'base64').toString() : ''
  return isWrappedSeal(text) ? seals.read(text) : { seal: { family: 'google', data: signature } }
}
