import type { OperatorProviders, ServedModels } from '#api/operator/providers.ts'
import { readAmount } from '../../format/typed-number.ts'

export type ShownProvider = OperatorProviders['data'][number]

/** An entry of `endpoints` or of its `models`, as in switchyard.yaml. */
export type Entry = Readonly<Record<string, unknown>>

/** A model to choose, with the price that is typed for it. */
export interface ModelChoice {
  readonly id: string
  readonly entry: Entry
  readonly isChosen: boolean
  /** What customers pay, in USD per million tokens. */
  readonly input: string
  readonly output: string
}

type Served = NonNullable<ServedModels['data']>[number]

/** Returns the models of a server to choose from, at `percent` of their list prices. */
export function choicesOf(served: readonly Served[], percent: number): ModelChoice[] {
  return served.map(({ entry }) => ({ id: String(entry.id), entry, isChosen: false, ...pricesAt(entry, percent) }))
}

/** Returns the models that a provider has, all chosen. */
export function choicesOfEntries(entries: readonly Entry[]): ModelChoice[] {
  return entries.map(entry => {
    const price = (entry.price_per_million_usd ?? {}) as Entry
    const [input, output] = [String(price.input ?? ''), String(price.output ?? '')]
    return { id: String(entry.id), entry, isChosen: true, input, output }
  })
}

/** Returns the models of a server that are not among the choices. */
export function newChoices(choices: readonly ModelChoice[], served: readonly Served[], percent: number): ModelChoice[] {
  const known = new Set(choices.map(({ entry }) => entry.upstream_model ?? entry.id))
  return choicesOf(
    served.filter(({ id }) => !known.has(id)),
    percent,
  )
}

export function entriesOf({ models }: Entry): readonly Entry[] {
  return Array.isArray(models) ? (models as Entry[]) : []
}

/** A choice at `percent` of what the provider charges. Prices that were typed where no cost is known stay. */
export function repriced(choice: ModelChoice, percent: number): ModelChoice {
  return choice.entry.cost_per_million_usd === undefined ? choice : { ...choice, ...pricesAt(choice.entry, percent) }
}

function pricesAt({ cost_per_million_usd: cost }: Entry, percent: number): Pick<ModelChoice, 'input' | 'output'> {
  if (cost === undefined) return { input: '', output: '' }
  const { input, output } = cost as Entry
  return { input: scaled(input, percent), output: scaled(output, percent) }
}

/**
 * Returns the entry of a choice as it is sold: the typed prices, and the other prices of its list in the proportion of
 * the input or output price.
 */
export function soldEntry({ entry, input, output }: ModelChoice): Entry {
  const list = (entry.price_per_million_usd ?? {}) as Entry
  const typed = { input: readAmount(input), output: readAmount(output) }
  const isSame = String(list.input) === typed.input && String(list.output) === typed.output
  if (isSame) return entry
  const inputPercent = percentOf(typed.input, list.input)
  const outputPercent = percentOf(typed.output, list.output)
  const atPercent = (prices: Entry): Entry =>
    Object.fromEntries(
      Object.entries(prices).map(([kind, price]) => {
        if (kind === 'steps' || kind === 'windows') return [kind, (price as Entry[]).map(atPercent)]
        if (!isPrice(kind)) return [kind, price]
        return [kind, scaled(price, kind.startsWith('output') ? outputPercent : inputPercent)]
      }),
    )
  return { ...entry, price_per_million_usd: { ...atPercent(list), ...typed } }
}

const isPrice = (kind: string) => /^(input|output|cache)(_|$)/.test(kind) || kind === 'per_request_usd'

function percentOf(price: string, list: unknown): number {
  const base = Number(list)
  return base > 0 ? (Number(price) / base) * 100 : 100
}

/** Rounded up to the six decimals of a price. */
function scaled(price: unknown, percent: number): string {
  const micros = Math.ceil(Number((Number(price) * percent * 10_000).toPrecision(12)))
  return String(micros / 1_000_000)
}
