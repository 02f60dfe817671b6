import { t } from '@lingui/core/macro'

// What people type. A number that cannot be read stays the text that it is, so that the gateway says what is wrong with
// it.

/**
 * Reads an amount with its decimals after a point or a comma: "1,5" is "1.5". The decimal stays text, so that it
 * reaches the gateway unchanged.
 */
export function readAmount(text: string): string {
  const typed = text.trim()
  return amountProblem(typed) === null ? typed.replace(',', '.') : typed
}

/** Says why an amount has two meanings; null if it has one. "1,000" is a thousand to some people and one to others. */
export function amountProblem(text: string): string | null {
  const typed = text.trim()
  if (/,.*[.,]|\..*,/.test(typed)) return t`Write it without separators of thousands, such as 1234.50.`
  // "0,125" has one meaning: no group of thousands follows a zero.
  const [, whole, digits = ''] = /^([1-9]\d{0,2}),(\d{3})$/.exec(typed) ?? []
  if (whole === undefined) return null
  return t`This can be read as ${whole}${digits} or as ${whole}.${digits}. Write it without a comma.`
}

/** Reads a whole number. Spaces, commas and underscores may stand between groups of thousands. */
export function readCount(text: string): number | string {
  const typed = text.trim()
  return /^(\d+|\d{1,3}([\s,_]\d{3})+)$/.test(typed) ? Number(typed.replace(/\D/g, '')) : typed
}
