import { elementAt } from '../../base/runtime/collections.ts'
/** The length of the demo's vectors. */
export const VECTOR_LENGTH = 256

/** The demo shares the event loop of the gateway, so it reads only the beginning of a text. */
const UNITS_READ = 8_192
/** Each word or part of one adds to so many numbers of the vector. */
const NUMBERS_PER_PART = 4
const WORD_WEIGHT = 2

/**
 * Returns a vector of length 1 in which each word and each three letters in a row have fixed places. Texts that share
 * words get similar vectors; the demo knows no meaning. The same text always gives the same vector.
 *
 * @param dimensions 1 to VECTOR_LENGTH
 */
export function textVector(text: string, dimensions = VECTOR_LENGTH): number[] {
  const words = text
    .slice(0, UNITS_READ)
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? [text.slice(0, UNITS_READ)]
  const sums = new Array<number>(dimensions).fill(0)
  for (const word of words) {
    addPart(sums, word, WORD_WEIGHT)
    for (let at = 0; at + 3 <= word.length; at++) addPart(sums, word.slice(at, at + 3), 1)
  }
  return normalised(sums)
}

/** Returns the vector of token ids, of which the demo has no text. */
export function tokensVector(tokens: readonly number[], dimensions = VECTOR_LENGTH): number[] {
  const sums = new Array<number>(dimensions).fill(0)
  for (const token of tokens.slice(0, UNITS_READ)) addPart(sums, `#${token}`, 1)
  return normalised(sums)
}

function addPart(sums: number[], part: string, weight: number): void {
  let hash = hashOf(part)
  for (let count = 0; count < NUMBERS_PER_PART; count++) {
    const place = (hash >>> 1) % sums.length
    sums[place] = elementAt(sums, place) + (hash & 1 ? weight : -weight)
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
    hash ^= hash >>> 12
  }
}

function normalised(sums: readonly number[]): number[] {
  const size = Math.hypot(...sums)
  // Parts may cancel each other out.
  if (size === 0) return sums.map((_, index) => (index === 0 ? 1 : 0))
  return sums.map(sum => Math.round((sum / size) * 1e6) / 1e6)
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let value = 0x811c9dc5
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193)
  return value
}
