import { z } from 'zod'

/** A whole number from 1 to `max` (at most four digits) in a query string, or what is said of anything else. */
export function queryInteger({ max, example }: { readonly max: number; readonly example: number }) {
  const allowed = `must be a whole number from 1 to ${max} in plain digits, such as ${example}`
  return z.preprocess(
    // Only the canonical decimal form: Number() would also take "1e2", "0x1f", " 5" and "".
    value => (typeof value === 'string' && /^[1-9]\d{0,3}$/.test(value) ? Number(value) : value),
    z.int(allowed).min(1, allowed).max(max, allowed),
  )
}
