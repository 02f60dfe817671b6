import { t } from '@lingui/core/macro'
import type { RequestReceipt } from '#api/activity.ts'
import { countText } from '../../format/number-text.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { codeText } from '../../texts/code-text.ts'

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
    term(billed.input - sumOf(isInput), t`input`, price.input_usd_per_million),
    ...parts.filter(({ kind }) => isInput(kind)).map(partTerm),
    term(billed.output - sumOf(isOutput), t`output`, price.output_usd_per_million),
    ...parts.filter(({ kind }) => isOutput(kind)).map(partTerm),
  ].filter(text => text !== '')
  const request = parts.find(({ kind }) => kind === 'request')
  const perRequest = request === undefined ? '' : t` + ${exactUsd(request.usd_per_million / 1e6)} for the request`
  const less = writtenOff === 0 ? '' : t`, less ${exactUsd(writtenOff)} USD that you do not pay`
  return t`= ${terms.join(' + ')}, in USD per million tokens${perRequest}${less}`
}

function freeReason({ success, tokens, price, written_off_usd: writtenOff }: Priced): string {
  if (writtenOff > 0)
    return t`You do not pay ${exactUsd(writtenOff)} USD of it: the money set aside for it was free again before its tokens were counted.`
  if (!success) return t`A request that fails costs nothing.`
  if (tokens.source === 'none') return t`No output was generated, so it costs nothing.`
  const prices = [
    price.input_usd_per_million,
    price.output_usd_per_million,
    ...tokens.parts.map(({ usd_per_million }) => usd_per_million),
  ]
  return prices.every(usd => usd === 0) ? t`The price of this model is zero.` : t`No billed token has a price.`
}

function partTerm({ kind, tokens, usd_per_million }: Part): string {
  return term(tokens, codeText(kind), usd_per_million)
}

function term(tokens: number, name: string, usdPerMillion: number): string {
  return tokens === 0 ? '' : `${countText(tokens)} ${name} × ${exactUsd(usdPerMillion)}`
}
