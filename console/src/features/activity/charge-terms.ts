import type { RequestReceipt } from '#api/activity.ts'
import { countText } from '../../format/number-text.ts'
import { exactUsd } from '../../format/usd-text.ts'

type Priced = Pick<RequestReceipt, 'success' | 'tokens' | 'price' | 'cost_usd' | 'written_off_usd'>
type Part = RequestReceipt['tokens']['parts'][number]

const outputKinds: readonly Part['kind'][] = ['output_image', 'output_audio']

/**
 * Writes how the charge follows from tokens and prices: "= 9 input × 0.1 + 40 output × 0.4, in USD per million tokens".
 * Says of a free request why it is free.
 */
export function chargeTerms(receipt: Priced): string {
  const { tokens, price, cost_usd, written_off_usd: writtenOff } = receipt
  if (cost_usd === 0) return freeReason(receipt)
  const { billed, parts } = tokens
  const sumOf = (isCounted: (kind: Part['kind']) => boolean) =>
    parts.filter(({ kind }) => isCounted(kind)).reduce((sum, part) => sum + part.tokens, 0)
  const isOutput = (kind: Part['kind']) => outputKinds.includes(kind)
  const isInput = (kind: Part['kind']) => kind !== 'request' && !isOutput(kind)
  const terms = [
    term(billed.input - sumOf(isInput), 'input', price.input_usd_per_million),
    ...parts.filter(({ kind }) => isInput(kind)).map(partTerm),
    term(billed.output - sumOf(isOutput), 'output', price.output_usd_per_million),
    ...parts.filter(({ kind }) => isOutput(kind)).map(partTerm),
  ].filter(text => text !== '')
  const request = parts.find(({ kind }) => kind === 'request')
  const perRequest = request === undefined ? '' : ` + ${exactUsd(request.usd_per_million / 1e6)} for the request`
  const less = writtenOff === 0 ? '' : `, less ${exactUsd(writtenOff)} USD that you do not pay`
  return `= ${terms.join(' + ')}, in USD per million tokens${perRequest}${less}`
}

function freeReason({ success, tokens, price, written_off_usd: writtenOff }: Priced): string {
  if (writtenOff > 0)
    return `You do not pay ${exactUsd(writtenOff)} USD of it: nothing was held any more when they were measured.`
  if (!success) return 'A request that fails costs nothing.'
  if (tokens.source === 'none') return 'No output was generated, so it costs nothing.'
  const prices = [
    price.input_usd_per_million,
    price.output_usd_per_million,
    ...tokens.parts.map(({ usd_per_million }) => usd_per_million),
  ]
  return prices.every(usd => usd === 0) ? 'The price of this model is zero.' : 'No billed token has a price.'
}

function partTerm({ kind, tokens, usd_per_million }: Part): string {
  return term(tokens, kind.replaceAll('_', ' '), usd_per_million)
}

function term(tokens: number, name: string, usdPerMillion: number): string {
  return tokens === 0 ? '' : `${countText(tokens)} ${name} × ${exactUsd(usdPerMillion)}`
}
