import { z } from 'zod'
import type { Nanos } from '../../base/domain/money.ts'
import { refusedField } from '../dialects/json/body-refusal.ts'
import { parseStrictBody } from './strict-body.ts'
import { readUsdAmount } from './usd-amount.ts'

const limitText = 'USD above zero and below a billion, with at most 9 decimals, as a number or as text'

/** The body of `POST C/playground-key`. The answer is `issuedKey`. */
export const playgroundKeyRequest = z.strictObject(
  {
    spend_limit_usd: z
      .union([z.number(), z.string()], { error: limitText })
      .default(1)
      .describe('Maximum that the person may spend in the playground on one UTC day, in USD. Default 1.'),
  },
  { error: 'a JSON object' },
)

/** Returns the limit of the body. Throws ApiError `invalid_json` or `invalid_value`, with the `param` at fault. */
export function parsePlaygroundKey(bytes: Buffer): Nanos {
  const { spend_limit_usd: amount } = parseStrictBody(bytes, playgroundKeyRequest, 'a playground key')
  const nanos = readUsdAmount(amount)
  if (nanos === undefined) throw refusedField('spend_limit_usd', limitText, amount)
  return nanos
}
