import type { RequestReceipt } from '#api/activity.ts'
import { countText } from '../../format/number-text.ts'
import { exactUsd } from '../../format/usd-text.ts'

type Part = RequestReceipt['tokens']['parts'][number]

const outputKinds: readonly Part['kind'][] = ['output_image', 'output_audio']

/** Writes how the charge follows from tokens and prices: "= 9 input × 0.1 + 40 output × 0.4, per million tokens". */
export function chargeTerms({
  tokens,
  price,
  cost_usd,
}: Pick<RequestReceipt, 'tokens' | 'price' | 'cost_usd'>): string {
  if (cost_usd === 0) return ''
  const { billed, parts } = tokens
  const sumOf = (kinds: (kind: Part['kind']) => boolean) =>
    parts.filter(({ kind }) => kinds(kind)).reduce((sum, part) => sum + part.tokens, 0)
  const isOutput = (kind: Part['kind']) => outputKinds.includes(kind)
  const terms = [
    term(billed.input - sumOf(kind => kind !== 'request' && !isOutput(kind)), 'input', price.input_usd_per_million),
    ...parts.filter(({ kind }) => kind !== 'request' && !isOutput(kind)).map(partTerm),
    term(billed.output - sumOf(isOutput), 'output', price.output_usd_per_million),
    ...parts.filter(({ kind }) => isOutput(kind)).map(partTerm),
  ].filter(text => text !== '')
  const request = parts.find(({ kind }) => kind === 'request')
  const perRequest = request === undefined ? '' : ` + ${exactUsd(request.usd_per_million / 1e6)} for the request`
  return `= ${terms.join(' + ')}, in USD per million tokens${perRequest}`
}

function partTerm({ kind, tokens, usd_per_million }: Part): string {
  return term(tokens, kind.replaceAll('_', ' '), usd_per_million)
}

function term(tokens: number, name: string, usdPerMillion: number): string {
  return tokens === 0 ? '' : `${countText(tokens)} ${name} × ${exactUsd(usdPerMillion)}`
}
