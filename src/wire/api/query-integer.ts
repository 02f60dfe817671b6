import { z } from 'zod'

/** Schema of a query parameter that is a whole number from 1 to `max`, which has at most four digits. */
export function queryInteger({ max, example }: { readonly max: number; readonly example: number }) {
  const allowed = `must be a whole number from 1 to ${max} in plain digits, such as ${example}`
  return z.preprocess(
    // Accept only the canonical decimal form: Number() would also accept "1e2", "0x1f", " 5" and "".
    value => (typeof value === 'string' && /^[1-9]\d{0,3}$/.test(value) ? Number(value) : value),
    z.int(allowed).min(1, allowed).max(max, allowed),
  )
}
