import { z } from 'zod'
import { inputKinds, outputKinds } from '../../base/domain/money.ts'

const usdPerMillion = z.number().nonnegative()

/** The version of the prices of a customer or an account tier. */
export const priceGroup = z
  .object({ name: z.string(), version: z.int() })
  .nullable()
  .describe(
    'The price group of the customer, with the version that the price comes from. Null: the price is the same for all customers.',
  )

/** The price of a server in quotes and receipts. */
export const priceFields = {
  group: priceGroup,
  version: z
    .int()
    .nullable()
    .describe(
      'Version of the price list of the hoster, or of the provider; null for prices of the configuration file.',
    ),
  input_usd_per_million: usdPerMillion.describe('USD per million input tokens.'),
  output_usd_per_million: usdPerMillion.describe('USD per million output tokens.'),
}

/** The kind and the price of a part of a request in quotes and receipts. */
export const partPriceFields = {
  kind: z.enum([...inputKinds, ...outputKinds, 'request']),
  usd_per_million: usdPerMillion.describe('USD per million tokens; for `request`, per million requests.'),
}
