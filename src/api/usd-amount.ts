import { type Nanos, parseUsd } from '../domain/money.ts'

/** An amount of USD in a JSON body, as a number or as decimal text; undefined unless it is above zero and has at most 9 decimals. */
export function readUsdAmount(amount: number | string): Nanos | undefined {
  // The shortest text of a number is what was written; with an exponent it is small, and digits beyond the ninth show as a difference.
  const text = typeof amount === 'string' ? amount : /e/.test(String(amount)) ? amount.toFixed(9) : String(amount)
  const nanos = parseUsd(text)
  const isWhole = typeof amount === 'string' || Number(text) === amount
  return isWhole && nanos !== 0n ? nanos : undefined
}
