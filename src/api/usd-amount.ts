import { type Nanos, parseUsd } from '../domain/money.ts'

/**
 * Reads an amount of USD from a JSON body, as a number or as decimal text. Returns undefined unless the amount
 * is positive and has at most 9 decimals.
 */
export function readUsdAmount(amount: number | string): Nanos | undefined {
  // String() writes a small number with an exponent, and toFixed(9) drops a tenth decimal, which the comparison
  // below detects.
  const text = typeof amount === 'string' ? amount : /e/.test(String(amount)) ? amount.toFixed(9) : String(amount)
  const nanos = parseUsd(text)
  const isWhole = typeof amount === 'string' || Number(text) === amount
  return isWhole && nanos !== 0n ? nanos : undefined
}
