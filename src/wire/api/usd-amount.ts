import { z } from 'zod'
import { type Nanos, parseUsd } from '../../base/domain/money.ts'

/**
 * An amount that `readUsdAmount` reads, as the OpenAPI document shows it. That function also refuses a zero as text,
 * and a tenth decimal.
 *
 * @param error completes the sentence "`param` must be ..."
 */
export function usdAmount(error: string) {
  return z.union(
    [z.number({ error }).positive({ error }).lt(1e9, { error }), z.string({ error }).regex(USD, { error })],
    {
      error,
    },
  )
}

const USD = /^\s*\d{1,9}(\.\d{1,9})?\s*$/

/**
 * Reads an amount of USD from a JSON body, as a number or as decimal text. Returns undefined unless the amount
 * is positive and has at most 9 decimals.
 */
export function readUsdAmount(amount: number | string): Nanos | undefined {
  // String() writes a small number with an exponent, and toFixed(9) drops a tenth decimal, which the comparison
  // below detects.
  const text = typeof amount === 'string' ? amount : /e/.test(String(amount)) ? amount.toFixed(9) : String(amount)
  const nanos = parseUsd(text)
  const isExact = typeof amount === 'string' || Number(text) === amount
  return isExact && nanos !== 0n ? nanos : undefined
}
