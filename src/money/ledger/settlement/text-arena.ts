/**
 * Keeps texts as bytes outside the JavaScript heap while they wait.
 *
 * A settlement waits 50 to 500 ms for its commit. On a busy gateway that is long enough for an object to be promoted
 * to the old generation of the heap, where it soon becomes garbage. Kept as objects, settlements produced 2 kB of
 * such garbage per request and caused nearly all full collections.
 */
export interface TextArena {
  keep(text: string): KeptText
  textOf(text: KeptText): string
  /** Releases the memory of a text. Dropping it twice does nothing. */
  drop(text: KeptText): void
}

/** The position of a kept text, in UTF-8. Only this module reads it. */
export interface KeptText {
  readonly slab: Slab
  /** Offsets in the bytes of the slab. */
  readonly start: number
  readonly end: number
  isKept: boolean
}

interface Slab {
  readonly bytes: Buffer
  /** Texts in the slab that are not dropped. */
  live: number
}

/** 256 KiB. A slab is free again when its last text is dropped. */
const SLAB_BYTES = 262_144
/** How many empty slabs are kept. More are in use only while settlements pile up. */
const SPARE_SLABS_MAX = 24

export function createTextArena(slabBytes = SLAB_BYTES): TextArena {
  const spare: Slab[] = []
  let current = newSlab(slabBytes)
  let used = 0

  return {
    keep(text) {
      // A UTF-16 unit becomes three bytes at most. Counting the bytes first would walk the text twice.
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

/** Joins one or more texts with an ASCII separator. The bytes are valid until the next call. */
export type JoinTexts = (texts: readonly KeptText[], separator: string) => Buffer

/** Call it once for each place that may wait for its bytes to be sent while another one joins texts. */
export function createTextJoiner(): JoinTexts {
  // Reused: a new buffer per batch would reach the old generation, and only a full collection frees that.
  let buffer = Buffer.alloc(0)
  return (texts, separator) => {
    const separatorByte = separator.charCodeAt(0)
    let length = texts.length - 1
    for (const { start, end } of texts) length += end - start
    if (length > buffer.length) buffer = Buffer.allocUnsafeSlow(length * 2)
    let at = 0
    for (const { slab, start, end } of texts) {
      if (at > 0) buffer[at++] = separatorByte
      at += slab.bytes.copy(buffer, at, start, end)
    }
    return buffer.subarray(0, length)
  }
}
