import { z } from 'zod'
import { inputKinds, outputKinds, parsePricePerMillion, parseUsd } from '../../../base/domain/money.ts'
import { parsePercent } from '../../../base/domain/price-group.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { keyPath } from '../../../base/runtime/key-path.ts'
import { reason } from '../hosters.ts'
import { priceGroup } from '../price-fields.ts'
import { parseStrictBody } from '../strict-body.ts'

const percentText = 'must be a percentage as text with at most two decimals, -99.99 to 1000, such as "-10"'
const percent = z
  .string({ error: percentText })
  .refine(text => parsePercent(text) !== undefined, { error: percentText })
  .describe('Percent as text: "-10" is a discount, "15" a markup, "0" the list price.')
const usdText = 'must be USD per million tokens as text with at most 6 decimals, such as "0.15"'
const usd = z.string({ error: usdText }).refine(text => parsePricePerMillion(text) !== undefined, { error: usdText })
/** Far above any price, and far below what the sums of a request can hold. */
const PER_REQUEST_MAX_NANOS = 1_000_000_000_000n
const perRequestText = 'must be USD as text, at most 1000, such as "0.01"'
const perRequest = z
  .string({ error: perRequestText })
  .refine(text => (parseUsd(text) ?? PER_REQUEST_MAX_NANOS + 1n) <= PER_REQUEST_MAX_NANOS, { error: perRequestText })

const ownPrice = z.strictObject({
  input: usd,
  output: usd,
  ...Object.fromEntries([...inputKinds, ...outputKinds].map(kind => [kind, usd.optional()])),
  per_request_usd: perRequest.optional(),
})
const modelPrice = z.union([z.strictObject({ percent }), z.strictObject({ price_per_million_usd: ownPrice })])
const MODELS_MAX = 500
const models = z
  .record(z.string().min(1).max(200), modelPrice)
  .refine(rules => Object.keys(rules).length <= MODELS_MAX, { error: `must have at most ${MODELS_MAX} models` })
  .describe('By model id: another percentage, or prices of their own, as in `price_per_million_usd` of a provider.')

const version = z.int().positive()
const nameText = 'must be a lower-case name: letters, digits, - _ and .'
const name = z.string({ error: nameText }).regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, { error: nameText })

const group = {
  name: z.string(),
  version,
  percent: z.string(),
  models,
  reason: z.string(),
  changed_at: z.string(),
}

export const priceGroups = z
  .object({
    data: z.array(
      z.object({
        ...group,
        tiers: z.array(z.string()),
        customers: z.int().describe('Customers that have it themselves.'),
      }),
    ),
    tiers: z.array(z.string()).describe('All account tiers.'),
  })
  .meta({ id: 'PriceGroups' })
export type PriceGroups = z.infer<typeof priceGroups>

export const priceGroupVersions = z
  .object({
    data: z
      .array(z.object({ ...group, percent: z.string().nullable(), models: models.nullable() }))
      .describe('The newest first, at most 100. `percent` and `models` are null where the group was removed.'),
  })
  .meta({ id: 'PriceGroupVersions' })
export type PriceGroupVersions = z.infer<typeof priceGroupVersions>

export const writtenPriceGroup = z.object({ name: z.string(), version }).meta({ id: 'WrittenPriceGroup' })

export const customerPrices = z
  .object({
    own: z.string().nullable().describe('The price group of the customer.'),
    of_tier: z.string().nullable().describe('That of its account tier, which counts where the customer has none.'),
    current: priceGroup,
  })
  .meta({ id: 'CustomerPrices' })
export type CustomerPriceGroup = z.infer<typeof customerPrices>

export const assignedPriceGroup = z.object({ price_group: z.string().nullable() }).meta({ id: 'AssignedPriceGroup' })

const newGroup = z.strictObject({ name, percent, models, reason })
const changedGroup = z.strictObject({ percent, models, reason, version })
const removedGroup = z.strictObject({ reason, version })
const assignment = z.strictObject({ price_group: name.nullable(), reason })

const declaredGroup = z.strictObject({
  name,
  percent: percent.default('0'),
  models: models.default({}),
  tiers: z.array(z.string()).default([]),
})
const declaredGroups = z
  .array(declaredGroup)
  .refine(groups => new Set(groups.map(each => each.name)).size === groups.length, {
    error: 'must have each name once',
  })
/** A price group of a file for `config apply`, with the account tiers that have it. */
export type DeclaredPriceGroup = z.infer<typeof declaredGroup>

/** Reads `price_groups` of a file. Numbers count as their decimal text. Returns the groups, or what is wrong. */
export function readDeclaredPriceGroups(
  written: unknown,
): { readonly groups: readonly DeclaredPriceGroup[] } | { readonly problem: string } {
  const parsed = declaredGroups.safeParse(withDecimalTexts(written))
  if (parsed.success) return { groups: parsed.data.map(group => ({ ...group, tiers: group.tiers.toSorted() })) }
  const [issue] = parsed.error.issues
  return { problem: `${keyPath(issue?.path ?? [], 'price_groups')} ${issue?.message}.` }
}

function withDecimalTexts(value: unknown): unknown {
  if (typeof value === 'number') return String(value)
  if (Array.isArray(value)) return value.map(withDecimalTexts)
  if (!isJsonObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withDecimalTexts(inner)]))
}

export const parseNewPriceGroup = (body: Buffer) => parseStrictBody(body, newGroup, 'a price group')
export const parsePriceGroupChange = (body: Buffer) => parseStrictBody(body, changedGroup, 'a change of a price group')
export const parsePriceGroupRemoval = (body: Buffer) =>
  parseStrictBody(body, removedGroup, 'a removal of a price group')
export const parsePriceGroupAssignment = (body: Buffer) =>
  parseStrictBody(body, assignment, 'an assignment of a price group')
