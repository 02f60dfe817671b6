/**
 * Returns a generator of numbers in [0, 1). The same seed gives the same sequence on every machine. Not for
 * secrets. Mixes a 32-bit counter with an odd step in two multiply-and-shift rounds: the state is one
 * integer, and neighbouring seeds (choice 0, choice 1) give unrelated sequences.
 */
export function seededRandom(seed: number): () => number {
  let counter = seed | 0
  return () => {
    counter = (counter + 0x9e3779b9) | 0
    let mixed = counter
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d)
    mixed = Math.imul(mixed ^ (mixed >>> 12), 0x297a2d39)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }
}
