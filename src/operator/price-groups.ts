import type { Pool, Sql } from '../base/db/pool.ts'
import { ApiError } from '../base/domain/errors.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import {
  assignToCustomer,
  assignToTier,
  changePriceGroup,
  type PriceGroupOrder,
} from '../money/accounts/change-price-group.ts'
import { listPriceGroups, listPriceGroupVersions, readCustomerPrices } from '../money/accounts/price-groups.ts'
import type { CustomerPriceGroup, PriceGroups, PriceGroupVersions } from '../wire/api/operator/price-groups.ts'
import { type Actor, act } from './operator-action.ts'

/** The prices of customers and account tiers, as operators read and change them. All methods reject with ApiError. */
export interface OperatorPriceGroups {
  list(): Promise<PriceGroups>
  versions(name: string): Promise<PriceGroupVersions>
  change(actor: Actor, order: PriceGroupOrder): Promise<{ name: string; version: number }>
  ofCustomer(customerId: string): Promise<CustomerPriceGroup>
  assignToCustomer(actor: Actor, order: Assignment & { readonly customerId: string }): Promise<void>
  assignToTier(actor: Actor, order: Assignment & { readonly tier: string }): Promise<void>
}

interface Assignment {
  /** Null: none of its own. */
  readonly name: string | null
  readonly reason: string
}

export function createOperatorPriceGroups(deps: {
  readonly sql: Sql
  readonly pool: Pool
  readonly tiers: () => readonly string[]
  /** Lets this node use a change at once. The others notice it within a second. */
  readonly noticeChanges: () => Promise<void>
}): OperatorPriceGroups {
  const { sql, pool, tiers } = deps
  const write = async <T>(actor: Actor, work: (sql: Sql) => Promise<T>) => {
    const result = await act(pool, actor, work)
    await deps.noticeChanges()
    return result
  }
  return {
    async list() {
      const groups = await listPriceGroups(sql)
      return {
        data: groups.map(({ name, version, rules, reason, changedAt, tiers, customers }) => ({
          ...{ name, version, percent: rules.percent, models: rules.models, reason, tiers },
          customers: Number(customers),
          changed_at: changedAt.toISOString(),
        })),
        tiers: [...tiers()],
      }
    },
    async versions(name) {
      const versions = await listPriceGroupVersions(sql, name)
      if (versions.length === 0) throw new ApiError('not_found')
      return {
        data: versions.map(({ version, rules, reason, changedAt }) => ({
          ...{ name, version, percent: rules?.percent ?? null, models: rules?.models ?? null, reason },
          changed_at: changedAt.toISOString(),
        })),
      }
    },
    change: (actor, order) => write(actor, sql => changePriceGroup(sql, actor, order)),
    async ofCustomer(customerId) {
      const { own, ofTier, current } = await readCustomerPrices(sql, customerId)
      return { own, of_tier: ofTier, current }
    },
    assignToCustomer: (actor, order) => write(actor, sql => assignToCustomer(sql, actor, order)),
    async assignToTier(actor, order) {
      if (!tiers().includes(order.tier)) throw new ApiError('not_found', { message: sayRefusal('refusal.no_tier') })
      await write(actor, sql => assignToTier(sql, actor, order))
    },
  }
}
