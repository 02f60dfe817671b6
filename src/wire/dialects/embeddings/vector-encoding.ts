import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'

/**
 * Converts vectors between the two encodings of OpenAI's API: a list of numbers, and base64 of little-endian float32.
 */

const FLOAT_BYTES = 4

/** A vector as JSON, ready for the client. */
export interface EncodedVector {
  readonly json: string
  readonly length: number
}

/**
 * Encodes the vector of an upstream, which may have either form whatever it was asked for. Throws UpstreamFailure
 * `malformed` if it is empty, not a vector, or has a number that is not finite as a float32.
 */
export function encodeVector(vector: unknown, encoding: 'float' | 'base64'): EncodedVector {
  if (typeof vector === 'string') {
    const numbers = decodeBase64(vector)
    return { json: JSON.stringify(encoding === 'base64' ? vector : [...numbers]), length: numbers.length }
  }
  if (!Array.isArray(vector) || vector.length === 0) throw malformed('A vector of the answer is missing or empty.')
  requireNumbers(vector)
  return { json: encoding === 'base64' ? `"${encodeBase64(vector)}"` : JSON.stringify(vector), length: vector.length }
}

/** Returns base64 of the numbers as little-endian float32. */
export function encodeBase64(numbers: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(numbers.length * FLOAT_BYTES)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let at = 0; at < numbers.length; at++) view.setFloat32(at * FLOAT_BYTES, numbers[at]!, true)
  return bytes.toString('base64')
}

/** Throws UpstreamFailure `malformed` for anything but base64 of at least one finite little-endian float32. */
export function decodeBase64(text: string): Float32Array {
  const bytes = Buffer.from(text, 'base64')
  // Node ignores characters that are not base64, and stops at the first padding.
  if (bytes.length === 0 || bytes.length % FLOAT_BYTES !== 0 || !isCanonical(text, bytes.length)) {
    throw malformed('A vector of the answer is not base64 of float32 numbers.')
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const numbers = new Float32Array(bytes.length / FLOAT_BYTES)
  for (let at = 0; at < numbers.length; at++) numbers[at] = view.getFloat32(at * FLOAT_BYTES, true)
  requireNumbers(numbers)
  return numbers
}

/** Whether the text has exactly the characters that so many bytes need. */
function isCanonical(text: string, byteCount: number): boolean {
  return text.length === Math.ceil(byteCount / 3) * 4
}

function requireNumbers(numbers: ArrayLike<unknown>): void {
  for (let at = 0; at < numbers.length; at++) {
    // A client reads float32. A larger number would become infinite.
    if (!Number.isFinite(Math.fround(numbers[at] as number)) || typeof numbers[at] !== 'number') {
      throw malformed('A vector of the answer has a number that is no float32.')
    }
  }
}

function malformed(message: string): UpstreamFailure {
  return new UpstreamFailure('malformed', message)
}
