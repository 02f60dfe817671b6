/** A stream of random numbers, determined by a seed. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number
  /** A whole number, both ends included. */
  between(least: number, most: number): number
  chance(probability: number): boolean
  pick<T>(from: readonly T[]): T
  /** Between `least` and `most`, small values more often: the logarithm is uniform. */
  skewed(least: number, most: number): number
  /** An independent stream, so that the draws of one part do not shift the draws of another. */
  fork(): Random
}

/** sfc32 by Chris Doty-Humphrey (PractRand): 128 bits of state, fast, with a period far longer than a run needs. */
export function createRandom(seed: number): Random {
  let a = 0x9e3779b9
  let b = Math.floor(seed / 2 ** 32) | 0
  let c = seed | 0
  let counter = 1
  const draw = () => {
    const t = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + t) | 0
    return t >>> 0
  }
  // Neighbouring seeds start alike; a dozen rounds remove the similarity.
  for (let round = 0; round < 15; round++) draw()

  const random: Random = {
    next: () => draw() / 2 ** 32,
    between: (least, most) => least + Math.floor((draw() / 2 ** 32) * (most - least + 1)),
    chance: probability => draw() / 2 ** 32 < probability,
    pick: from => from[Math.floor((draw() / 2 ** 32) * from.length)]!,
    skewed: (least, most) => least * (most / least) ** (draw() / 2 ** 32),
    fork: () => createRandom(draw() * 2 ** 21 + (draw() >>> 11)),
  }
  return random
}
