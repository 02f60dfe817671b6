import { expect, test } from 'vitest'
import { parseNewPriceGroup } from './price-groups.ts'

const parse = (perRequest: string) => {
  const price = { input: '1', output: '2', per_request_usd: perRequest }
  const models = { m: { price_per_million_usd: price } }
  return parseNewPriceGroup(Buffer.from(JSON.stringify({ name: 'g', percent: '0', models, reason: 'x' })))
}

test('a price of a request is at most 1,000 USD', () => {
  for (const allowed of ['0', '0.01', '1000']) expect(() => parse(allowed)).not.toThrow()
  for (const refused of ['1000.000000001', '9008', '1000000000', '-1', '1e3', ''])
    expect(() => parse(refused)).toThrow()
})
