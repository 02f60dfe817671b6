/**
 * Texts that wait for something, as bytes outside of the JavaScript heap.
 *
 * What lives for some 50 ms while thousands like it come is old enough to be promoted to the old generation of the heap, and garbage as soon as
 * it is there. As objects settlements were 2 kB a request of that, and nearly all full collections of the heap were theirs.
 */
export interface TextArena {
  keep(text: string): KeptText
  textOf(text: KeptText): string
  /** The texts, at least one, with this sign of ASCII between them. The bytes stay as they are until the next call. */
  joined(texts: readonly KeptText[], separator: string): Buffer
  /** Its memory is used again. Dropping it twice does nothing. */
  drop(text: KeptText): void
}

/** UTF-8, up to the drop. Only this module looks into it. */
export interface KeptText {
  readonly slab: Slab
  /** In its bytes. */
  readonly start: number
  readonly end: number
  isKept: boolean
}

interface Slab {
  readonly bytes: Buffer
  /** Texts in it that are not dropped. */
  live: number
}

/** Empty slabs that are kept for later: more of them are there only after something has piled up. */
const SPARE_SLABS_MAX = 8

export function createTextArena(slabBytes = 1 << 18): TextArena {
  const spare: Slab[] = []
  let current = newSlab(slabBytes)
  let used = 0
  let joint = Buffer.alloc(0)

  return {
    keep(text) {
      // A character of a string becomes three bytes at most. Counting them first would walk the text twice.
      const bytesMax = text.length * 3
      if (used + bytesMax > current.bytes.length) {
        current = bytesMax <= slabBytes ? (spare.pop() ?? newSlab(slabBytes)) : newSlab(bytesMax)
        used = 0
      }
      const start = used
      used += current.bytes.write(text, start)
      current.live++
      return { slab: current, start, end: used, isKept: true }
    },
    textOf: ({ slab, start, end }) => slab.bytes.toString('utf8', start, end),
    joined(texts, separator) {
      const sign = separator.charCodeAt(0)
      let length = texts.length - 1
      for (const { start, end } of texts) length += end - start
      // A new one for each batch would be old by the time the batch is done, and memory is not given back before a full collection.
      if (length > joint.length) joint = Buffer.allocUnsafeSlow(length * 2)
      let at = 0
      for (const { slab, start, end } of texts) {
        if (at > 0) joint[at++] = sign
        at += slab.bytes.copy(joint, at, start, end)
      }
      return joint.subarray(0, length)
    },
    drop(text) {
      if (!text.isKept) return
      text.isKept = false
      const { slab } = text
      slab.live--
      if (slab.live > 0) return
      if (slab === current) used = 0
      else if (slab.bytes.length === slabBytes && spare.length < SPARE_SLABS_MAX) spare.push(slab)
    },
  }
}

function newSlab(bytes: number): Slab {
  return { bytes: Buffer.allocUnsafeSlow(bytes), live: 0 }
}
