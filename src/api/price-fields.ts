import { z } from 'zod'

const usdPerMillion = z.number().nonnegative()

/** The price of a server in quotes and receipts. */
export const priceFields = {
  version: z.int().nullable().describe('Version of the price list of the hoster; null for prices of the operator.'),
  input_usd_per_million: usdPerMillion.describe('USD per million input tokens.'),
  output_usd_per_million: usdPerMillion.describe('USD per million output tokens.'),
}
