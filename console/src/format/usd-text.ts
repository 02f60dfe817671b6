/**
 * Writes amounts of money. The API sends USD as JSON numbers with at most 9 decimals, which a number keeps exactly up to
 * ten million. Sums are made of nano-USD, because numbers with decimals do not add up exactly.
 */

/** Returns the exact decimal, without an exponent: 0.0000169, 41.27, 5. */
export function exactUsd(usd: number): string {
  const text = String(usd)
  return text.includes('e') ? usd.toFixed(9).replace(/\.?0+$/, '') : text
}

/** Returns the exact decimal with at least two decimals and groups of thousands: 1,234.50, 0.0000169. */
export function chargeText(usd: number): string {
  const [whole = '0', decimals = ''] = exactUsd(usd).split('.')
  return `${grouped(whole)}.${decimals.padEnd(2, '0')}`
}

/**
 * Returns an amount with two decimals, for balances. An amount that is not zero never reads 0.00: it gets as many decimals as
 * its first two digits need.
 */
export function balanceText(usd: number): string {
  if (usd === 0) return '0.00'
  const size = Math.abs(usd)
  if (size >= 0.01) {
    // A balance never reads higher than it is.
    const cents = Math.floor(Number(`${exactUsd(size)}e2`))
    const text = `${grouped(String(Math.floor(cents / 100)))}.${String(cents % 100).padStart(2, '0')}`
    return usd < 0 ? `−${text}` : text
  }
  const decimals = Math.min(9, Math.ceil(-Math.log10(size)) + 1)
  const text = size.toFixed(decimals).replace(/0+$/, '')
  return usd < 0 ? `−${text}` : text
}

/** Returns a sum for headings and axes: two decimals from 1 USD on, otherwise three significant digits. */
export function roundUsd(usd: number): string {
  const size = Math.abs(usd)
  if (size === 0) return '0.00'
  const text =
    size >= 1
      ? size.toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })
      : size.toFixed(Math.min(9, Math.ceil(-Math.log10(size)) + 2)).replace(/(\.\d\d+?)0+$/, '$1')
  return usd < 0 ? `−${text}` : text
}

/** Returns an amount with its sign, for statements: +25.00, −4.60. */
export function signedUsd(usd: number): string {
  return `${usd < 0 ? '−' : '+'}${chargeText(Math.abs(usd))}`
}

/** Returns the exact sum. */
export function sumUsd(amounts: readonly number[]): number {
  const nanos = amounts.reduce((sum, usd) => sum + BigInt(Math.round(usd * 1e9)), 0n)
  return Number(nanos) / 1e9
}

function grouped(digits: string): string {
  return digits.replace(/\B(?=(\d{3})+$)/g, ',')
}
