import { randomBytes } from 'node:crypto'

/** Crockford's Base32: no letter looks like a digit. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** Returns random characters, 5 bits each. */
export function randomCode(characters: number): string {
  return Array.from(randomBytes(characters), byte => ALPHABET[byte & 31]).join('')
}

/**
 * Reads a typed code: without blanks and dashes, in upper case, and with the letters that people mistake for digits.
 */
export function normalisedCode(typed: string): string {
  return typed.toUpperCase().replace(/[\s-]/g, '').replaceAll('O', '0').replace(/[IL]/g, '1')
}

/** Returns a short code for people to quote: 40 bits, so that no two payments share one. */
export function paymentReference(): string {
  return `SY-${randomCode(4)}-${randomCode(4)}`
}
