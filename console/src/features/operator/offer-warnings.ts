import { t } from '@lingui/core/macro'

export interface OfferWarning {
  readonly severity: 'warn' | 'danger'
  readonly text: string
}

/** The part of `OperatorModels` that the warnings follow from. */
interface SoldModel {
  readonly id: string
  readonly offers: readonly {
    readonly name: string
    readonly state: string
    readonly input_usd_per_million: number
    readonly output_usd_per_million: number
    readonly context_tokens: number
  }[]
}

/** Returns what is wrong with the offers of a model. */
export function offerWarnings({ id, offers }: SoldModel): OfferWarning[] {
  const warnings: OfferWarning[] = []
  const down = offers.filter(({ state }) => state === 'ejected' || state === 'failing')
  if (down.length === offers.length && down.length > 0) {
    warnings.push({ severity: 'danger', text: t`${id}: no server works.` })
  } else {
    for (const { name, state } of down) {
      const what = state === 'ejected' ? t`takes no requests` : t`fails most requests`
      warnings.push({ severity: 'warn', text: `${id}: ${name} ${what}.` })
    }
  }
  for (const { name, input_usd_per_million: input, output_usd_per_million: output } of offers) {
    if (input === 0 && output === 0)
      warnings.push({ severity: 'warn', text: t`${id}: ${name} is free. Set its price.` })
  }
  const contexts = offers.map(({ context_tokens }) => context_tokens)
  if (new Set(contexts).size > 1) {
    const text = t`${id}: servers differ in context, from ${Math.min(...contexts)} to ${Math.max(...contexts)} tokens. Long prompts go only to some.`
    warnings.push({ severity: 'warn', text })
  }
  return warnings
}
