import type { ListedPrice, PriceList } from '../../base/domain/price-list.ts'
import type { EndpointSettings } from './schema.ts'
import { weekdays } from './values.ts'

type PriceSettings = EndpointSettings['models'][number]['price_per_million_usd']

/** Returns the price list of a configured model. */
export function configuredPrices({ steps, windows, ...base }: PriceSettings): PriceList {
  return {
    ...listedPrice(base),
    steps: steps.map(({ above_input_tokens, ...prices }) => ({
      ...listedPrice(prices),
      aboveInputTokens: above_input_tokens,
    })),
    windows: windows.map(({ days, hours, ...prices }) => ({
      ...listedPrice(prices),
      ...hours,
      days: days.map(day => weekdays.indexOf(day)),
    })),
  }
}

function listedPrice({
  input,
  output,
  per_request_usd,
  ...parts
}: Omit<PriceSettings, 'steps' | 'windows'>): ListedPrice {
  return { input, output, parts: named(parts), perRequest: (per_request_usd ?? 0n) * PICOS_PER_NANO }
}

/** Leaves out the kinds without a price. */
function named<Parts extends object>(parts: Parts): { [Kind in keyof Parts]?: NonNullable<Parts[Kind]> } {
  return Object.fromEntries(Object.entries(parts).filter(([, price]) => price !== undefined)) as typeof parts
}

const PICOS_PER_NANO = 1_000n
