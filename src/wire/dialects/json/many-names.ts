import { randomInt } from 'node:crypto'

const QUOTE = 34
const COLON = 58
/** Unknown to clients, which could otherwise choose names with equal hashes. */
const hashSeed = randomInt(2 ** 32)

/**
 * Whether the objects of a JSON text in UTF-8 have more than `max` different names in all. Compares hashes (FNV-1a), so
 * a name with the hash of another one is not counted.
 *
 * @param endOfString returns the index of the quote that closes a string
 */
export function hasMoreNames(json: Buffer, max: number, endOfString: (json: Buffer, from: number) => number): boolean {
  const hashes = new Set<number>()
  let start = 0
  let end = 0
  for (let i = 0; i < json.length; i++) {
    const byte = json[i]
    if (byte === QUOTE) {
      start = i + 1
      end = endOfString(json, start)
      i = end
    } else if (byte === COLON) {
      let hash = hashSeed
      for (let at = start; at < end; at++) hash = Math.imul(hash ^ json[at]!, 0x01000193)
      if (hashes.add(hash).size > max) return true
    }
  }
  return false
}
