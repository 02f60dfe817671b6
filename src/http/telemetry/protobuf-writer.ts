/** The types of the wire format that telemetry uses: https://protobuf.dev/programming-guides/encoding/ */
const wire = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const

const VARINT_BYTES_MAX = 10
/** Longer texts are written faster by Node than character by character. */
const SHORT_TEXT_MAX = 64

/** Writes the fields of a protobuf message, in one pass and into memory that is used again. */
export class ProtobufWriter {
  #bytes: Buffer
  #at = 0

  /** @param bytesAtFirst the memory to begin with; it grows */
  constructor(bytesAtFirst: number) {
    this.#bytes = Buffer.allocUnsafe(bytesAtFirst)
  }

  /** Begins a field that is a message. Returns what `close` needs. */
  open(field: number): number {
    this.#tag(field, wire.bytes)
    // The length is written here, and mostly has one byte.
    return ++this.#at
  }

  close(start: number): void {
    const end = this.#at
    const length = end - start
    if (length <= 0x7f) {
      this.#bytes[start - 1] = length
      return
    }
    const moved = varintLength(length) - 1
    this.#reserve(moved)
    this.#bytes.copyWithin(start + moved, start, end)
    this.#at = start - 1
    this.#varint(length)
    this.#at = end + moved
  }

  text(field: number, value: string): void {
    const start = this.open(field)
    // A unit of UTF-16 has at most three bytes.
    this.#reserve(3 * value.length)
    this.#at = writeShortAscii(this.#bytes, start, value) ?? start + this.#bytes.write(value, start)
    this.close(start)
  }

  hex(field: number, digits: string): void {
    const start = this.open(field)
    this.#reserve(digits.length)
    this.#at = start + this.#bytes.write(digits, start, 'hex')
    this.close(start)
  }

  /** Copies fields that another writer wrote. */
  fields(written: Uint8Array): void {
    this.#reserve(written.length)
    const bytes = this.#bytes
    let at = this.#at
    for (let index = 0; index < written.length; index++) bytes[at++] = written[index] ?? 0
    this.#at = at
  }

  /** @param value as int64 */
  integer(field: number, value: number): void {
    this.#tag(field, wire.varint)
    if (value >= 0) this.#varint(value)
    else this.#negative(value)
  }

  double(field: number, value: number): void {
    this.#tag(field, wire.fixed64)
    this.#reserve(8)
    this.#at = this.#bytes.writeDoubleLE(value, this.#at)
  }

  fixed64(field: number, value: bigint): void {
    this.#tag(field, wire.fixed64)
    this.#reserve(8)
    this.#at = this.#bytes.writeBigUInt64LE(value, this.#at)
  }

  fixed32(field: number, value: number): void {
    this.#tag(field, wire.fixed32)
    this.#reserve(4)
    this.#at = this.#bytes.writeUInt32LE(value, this.#at)
  }

  /** Returns a copy of what was written, and begins again. */
  take(): Uint8Array<ArrayBuffer> {
    const written = new Uint8Array(this.#bytes.subarray(0, this.#at))
    this.#at = 0
    return written
  }

  #tag(field: number, type: number): void {
    this.#varint((field << 3) | type)
  }

  #varint(value: number): void {
    this.#reserve(VARINT_BYTES_MAX)
    let rest = value
    while (rest > 0x7f) {
      this.#bytes[this.#at++] = (rest % 0x80) | 0x80
      rest = Math.floor(rest / 0x80)
    }
    this.#bytes[this.#at++] = rest
  }

  /** In two's complement. */
  #negative(value: number): void {
    this.#reserve(VARINT_BYTES_MAX)
    let rest = BigInt.asUintN(64, BigInt(value))
    for (; rest > 0x7fn; rest >>= 7n) this.#bytes[this.#at++] = Number(rest & 0x7fn) | 0x80
    this.#bytes[this.#at++] = Number(rest)
  }

  #reserve(length: number): void {
    if (this.#at + length <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(2 * this.#bytes.length + length)
    larger.set(this.#bytes.subarray(0, this.#at))
    this.#bytes = larger
  }
}

/** Returns where the text ends; null if it is long or has other characters. */
function writeShortAscii(bytes: Buffer, start: number, text: string): number | null {
  const { length } = text
  if (length > SHORT_TEXT_MAX) return null
  for (let index = 0; index < length; index++) {
    const unit = text.charCodeAt(index)
    if (unit > 0x7f) return null
    bytes[start + index] = unit
  }
  return start + length
}

function varintLength(value: number): number {
  let length = 1
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 0x80)) length++
  return length
}
