import { stringify } from 'yaml'
import type { Sql } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { ApiError } from '../base/domain/errors.ts'
import type { PriceRules } from '../base/domain/price-group.ts'
import { type Difference, differencesOf } from '../market/supply/providers/providers.ts'
import { assignToTier, changePriceGroup } from '../money/accounts/change-price-group.ts'
import { type ListedPriceGroup, listPriceGroups } from '../money/accounts/price-groups.ts'
import type { DeclaredPriceGroup } from '../wire/api/operator/price-groups.ts'
import { Failure } from './failure.ts'

/** A price group as `config apply` has changed it. */
export interface AppliedPriceGroup {
  readonly name: string
  readonly change: 'created' | 'changed' | 'removed' | 'unchanged'
  readonly version: number
  readonly differences: readonly Difference[]
}

/**
 * Writes price groups as YAML, with the account tiers that have them. Empty without any. Ids of models are keys, in which no
 * variable of the environment is replaced, and the other texts cannot name one.
 */
export function priceGroupsYaml(groups: readonly ListedPriceGroup[]): string {
  return groups.length === 0 ? '' : stringify({ price_groups: groups.map(fileEntry) }, { lineWidth: 0 })
}

/** The entry of a file for a price group. */
export function fileEntry({ name, rules, tiers }: ListedPriceGroup) {
  return { name, percent: rules.percent, models: rules.models, tiers: [...tiers] }
}

/**
 * Waits until nobody changes price groups, and keeps others from it until the end of the transaction. Requests do not wait.
 * A change of a group locks its row first and the audit log last, so this must come before entries of the audit log.
 */
export async function lockPriceGroups(sql: Sql): Promise<void> {
  await sql.query('LOCK TABLE price_group, tier_price_group IN EXCLUSIVE MODE')
}

/**
 * Makes the price groups and those of account tiers as a file says, after `lockPriceGroups`. Groups of customers stay.
 *
 * @param order.prune removes the groups that the file has not
 */
export async function applyPriceGroups(
  sql: Sql,
  order: {
    readonly declared: readonly DeclaredPriceGroup[]
    readonly knownTiers: readonly string[]
    readonly reason: string
    readonly prune: boolean
  },
): Promise<AppliedPriceGroup[]> {
  try {
    return await apply(sql, order)
  } catch (error) {
    if (error instanceof ApiError) throw new Failure(`price_groups: ${error.message}`)
    throw error
  }
}

async function apply(
  sql: Sql,
  { declared, knownTiers, reason, prune }: Parameters<typeof applyPriceGroups>[1],
): Promise<AppliedPriceGroup[]> {
  const stored = new Map((await listPriceGroups(sql)).map(group => [group.name, group]))
  const groupOfTier = tiersOf(declared, knownTiers)
  const applied: AppliedPriceGroup[] = []
  const write = async (
    name: string,
    rules: PriceRules | null,
    change: AppliedPriceGroup['change'],
    differences: Difference[],
  ) => {
    const { version } = await changePriceGroup(sql, commandLine, { name, rules, reason, version: undefined })
    applied.push({ name, change, version, differences })
  }
  for (const { name, percent, models, tiers } of declared) {
    const before = stored.get(name)
    const differences = differencesOf(before === undefined ? {} : fileEntry(before), { name, percent, models, tiers })
    const rules = { percent, models }
    if (before === undefined) await write(name, rules, 'created', differences)
    else if (differencesOf(before.rules, rules).length > 0) await write(name, rules, 'changed', differences)
    else {
      const change = differences.length > 0 ? 'changed' : 'unchanged'
      applied.push({ name, change, version: before.version, differences })
    }
  }
  // After the new groups, which tiers may get, and before those are removed that tiers have lost.
  for (const [tier, before] of [...stored.values()].flatMap(({ name, tiers }) =>
    tiers.map(each => [each, name] as const),
  )) {
    // A file without a group says nothing about its tiers.
    const isDeclared = prune || declared.some(({ name }) => name === before)
    if (isDeclared && !groupOfTier.has(tier)) await assignToTier(sql, commandLine, { tier, name: null, reason })
  }
  for (const [tier, name] of groupOfTier) {
    if (!stored.get(name)?.tiers.includes(tier)) await assignToTier(sql, commandLine, { tier, name, reason })
  }
  if (!prune) return applied
  const names = new Set(declared.map(({ name }) => name))
  for (const group of stored.values()) {
    if (!names.has(group.name)) await write(group.name, null, 'removed', differencesOf(fileEntry(group), {}))
  }
  return applied
}

/** Returns the group of each tier that the file names. Throws Failure for an unknown tier, and for one with two groups. */
function tiersOf(declared: readonly DeclaredPriceGroup[], knownTiers: readonly string[]): Map<string, string> {
  const groups = new Map<string, string>()
  for (const { name, tiers } of declared) {
    for (const tier of tiers) {
      if (!knownTiers.includes(tier)) throw new Failure(`price_groups: ${name}: there is no account tier "${tier}".`)
      if (groups.has(tier)) throw new Failure(`price_groups: the tier "${tier}" has two groups.`)
      groups.set(tier, name)
    }
  }
  return groups
}
