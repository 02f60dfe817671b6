import { type Nanos, parseUsd } from '../domain/money.ts'

/**
 * Reads USD of a JSON body, as a number or as decimal text. Returns undefined unless the amount is positive
 * and has at most 9 decimals.
 */
export function readUsdAmount(amount: number | string): Nanos | undefined {
  // String() returns the number as it was written. Small numbers have an exponent; a tenth decimal shows as a
  // difference below.
  const text = typeof amount === 'string' ? amount : /e/.test(String(amount)) ? amount.toFixed(9) : String(amount)
  const nanos = parseUsd(text)
  const isWhole = typeof amount === 'string' || Number(text) === amount
  return isWhole && nanos !== 0n ? nanos : undefined
}
