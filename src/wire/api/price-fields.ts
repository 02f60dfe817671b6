import { z } from 'zod'
import { inputKinds, outputKinds } from '../../base/domain/money.ts'

const usdPerMillion = z.number().nonnegative()

/** The price of a server in quotes and receipts. */
export const priceFields = {
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
