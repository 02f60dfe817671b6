/**
 * Writes amounts of money. The API sends USD as JSON numbers with at most 9 decimals, which a number keeps exactly up
 * to eight million. Sums are made of nano-USD, because numbers with decimals do not add up exactly.
 */

/** Returns the exact decimal, without an exponent: 0.0000169, 41.27, 5. */
export function exactUsd(usd: number): string {
  const text = String(usd)
  return text.includes('e') ? usd.toFixed(9).replace(/\.?0+$/, '') : text
}

/** Returns the exact decimal with at least two decimals and groups of thousands: 1,234.50, 0.0000169. */
export function chargeText(usd: number): string {
  const [whole = '0', decimals = ''] = exactUsd(Math.abs(usd)).split('.')
  return `${usd < 0 ? '−' : ''}${grouped(whole)}.${decimals.padEnd(2, '0')}`
}

/**
 * Returns an amount with two decimals, for balances. It is cut, so that a balance never reads higher than it is. An
 * amount that is not zero never reads 0.00: it gets as many decimals as its first two digits need.
 */
export function balanceText(usd: number): string {
  const [whole = '0', decimals = ''] = exactUsd(Math.abs(usd)).split('.')
  const zeros = /^0*/.exec(decimals)![0].length
  const isSmall = whole === '0' && zeros >= 2 && decimals !== ''
  const shown = isSmall ? decimals.slice(0, zeros + 2) : decimals.slice(0, 2).padEnd(2, '0')
  return `${usd < 0 ? '−' : ''}${grouped(whole)}.${shown}`
}

/**
 * Returns a sum for headings and axes: two decimals from 1 USD on, otherwise three significant digits. It is cut like a
 * balance, so that one amount never reads 29.99 on one page and 30.00 on another.
 */
export function roundUsd(usd: number): string {
  const size = Math.abs(usd)
  if (size === 0) return '0.00'
  const decimals = size >= 1 ? 2 : Math.min(9, Math.ceil(-Math.log10(size)) + 2)
  const [whole = '0', fraction = ''] = exactNanos(size).split('.')
  const text = `${grouped(whole)}.${fraction.slice(0, decimals).padEnd(2, '0')}`
  const shown = size >= 1 ? text : text.replace(/(\.\d\d+?)0+$/, '$1')
  return usd < 0 ? `−${shown}` : shown
}

/** Sums and ticks of charts may have binary fractions, such as 29.999999999999996. */
function exactNanos(usd: number): string {
  const text = exactUsd(usd)
  return (text.split('.')[1] ?? '').length > 9 ? usd.toFixed(9) : text
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
