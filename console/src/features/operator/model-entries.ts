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
  /** What the provider charges, typed likewise. Null: its list says it. */
  readonly cost: TypedPrices | null
}

interface TypedPrices {
  readonly input: string
  readonly output: string
}

type Served = NonNullable<ServedModels['data']>[number]

/** Returns the models of a server to choose from, at `percent` of their list prices. */
export function choicesOf(served: readonly Served[], percent: number): ModelChoice[] {
  return served.map(({ entry }) => ({ ...newChoice(entry, percent), isChosen: false }))
}

/** Returns a model that is sold at `percent` of its list price. Without a list price, its cost and price are to be typed. */
export function newChoice(entry: Entry, percent: number): ModelChoice {
  const cost = entry.cost_per_million_usd as Entry | undefined
  const typed = cost === undefined ? { input: '', output: '' } : null
  const price = cost === undefined ? { input: '', output: '' } : priceAt(cost, percent)
  return { id: String(entry.id), entry, isChosen: true, ...price, cost: typed }
}

/** Returns the models that a provider has, all chosen. */
export function choicesOfEntries(entries: readonly Entry[]): ModelChoice[] {
  return entries.map(entry => ({
    id: String(entry.id),
    entry,
    isChosen: true,
    ...twoPricesOf(entry.price_per_million_usd),
    cost: twoPricesOf(entry.cost_per_million_usd),
  }))
}

function twoPricesOf(prices: unknown): TypedPrices {
  const { input = '', output = '' } = (prices ?? {}) as Entry
  return { input: String(input), output: String(output) }
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

/** Returns a choice priced at `percent` of what the provider charges. A price whose cost is unknown does not change. */
export function repriced(choice: ModelChoice, percent: number): ModelChoice {
  const { entry, cost } = choice
  return { ...choice, ...priceAt(cost ?? (entry.cost_per_million_usd as Entry), percent, choice) }
}

/** Returns a choice whose provider charges `cost`. A price that was not typed follows the cost. */
export function withCost(choice: ModelChoice, cost: TypedPrices, percent: number): ModelChoice {
  const before = priceAt(choice.cost ?? {}, percent)
  const after = priceAt(cost, percent)
  const follow = (kind: 'input' | 'output') => (choice[kind] === before[kind] ? after[kind] : choice[kind])
  return { ...choice, cost, input: follow('input'), output: follow('output') }
}

/** Whether a percentage of the cost says what a model is sold for. */
export function hasCost({ cost }: ModelChoice): boolean {
  return cost === null || (isAmount(cost.input) && isAmount(cost.output))
}

const NO_PRICES: TypedPrices = { input: '', output: '' }

function priceAt(cost: Entry | TypedPrices, percent: number, otherwise = NO_PRICES): TypedPrices {
  const { input, output } = cost
  return {
    input: isAmount(input) ? scaled(readAmount(String(input)), percent) : otherwise.input,
    output: isAmount(output) ? scaled(readAmount(String(output)), percent) : otherwise.output,
  }
}

function isAmount(text: unknown): boolean {
  return text !== undefined && text !== '' && Number.isFinite(Number(readAmount(String(text))))
}

/** Returns the entry of a choice as it is sold: the typed prices and costs. Other prices of a list follow theirs in proportion. */
export function soldEntry({ entry, input, output, cost }: ModelChoice): Entry {
  const sold: Entry = { ...entry, price_per_million_usd: withTyped(entry.price_per_million_usd, { input, output }) }
  if (cost === null) return sold
  const { cost_per_million_usd: before, ...others } = sold
  // Without a list price, one of the two fields may be empty. The gateway then says which.
  if (cost.input.trim() === '' && cost.output.trim() === '') return others
  return { ...others, cost_per_million_usd: withTyped(before, cost) }
}

/** Returns a list of prices with another input and output price, and its other prices in the proportion of these. */
function withTyped(before: unknown, { input, output }: TypedPrices): Entry {
  const list = (before ?? {}) as Entry
  const typed = { input: readAmount(input), output: readAmount(output) }
  const isSame = String(list.input) === typed.input && String(list.output) === typed.output
  if (isSame) return list
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
  return { ...atPercent(list), ...typed }
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
