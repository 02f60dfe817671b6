/**
 * A time stamp as the content of a streamed chunk: `@` and the monotonic time in microseconds, as six base-36 digits. It is about as long as
 * a word, since gateways may count tokens by the length of the text. It wraps after 36 minutes.
 */
export function stampText(micros: number): string {
  return `${stampMark}${(Math.floor(micros) % wrapMicros).toString(36).padStart(stampDigits, '0')}`
}

export const stampMark = '@'
export const stampDigits = 6
const wrapMicros = 36 ** stampDigits

/** Microseconds from the time in a stamp (its six digits) to `nowMicros`. */
export function microsSince(digits: string, nowMicros: number): number {
  const micros = (nowMicros % wrapMicros) - Number.parseInt(digits, 36)
  return micros < 0 ? micros + wrapMicros : micros
}

/** Microseconds since boot, the same clock for all processes of a machine. */
export function monotonicMicros(): number {
  const [seconds, nanos] = process.hrtime()
  return seconds * 1e6 + nanos / 1e3
}
