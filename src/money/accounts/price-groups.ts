import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { ApiError } from '../../base/domain/errors.ts'
import {
  type FindPrices,
  type PriceGroup,
  type PriceGroupName,
  type PriceRules,
  readPriceGroup,
} from '../../base/domain/price-group.ts'

/** Versions in memory: a few are in use, and each takes about 300 bytes and as much for each model with a rule. */
const VERSIONS_MAX = 1_000

/** Creates the reader of versions. A version never changes, so it is read once. */
export function createPriceGroupReader(sql: Sql): FindPrices {
  const known = new Map<string, PriceGroup>()
  return wanted => {
    const key = `${wanted.name}@${wanted.version}`
    const found = known.get(key)
    if (found !== undefined) return found
    return readVersion(sql, wanted).then(group => {
      if (known.size >= VERSIONS_MAX) known.clear()
      known.set(key, group)
      return group
    })
  }
}

async function readVersion(sql: Sql, wanted: PriceGroupName): Promise<PriceGroup> {
  const { rules } = await queryRow<{ rules: PriceRules }>(
    sql,
    'SELECT rules FROM price_group_version WHERE name = $1 AND version = $2',
    [wanted.name, wanted.version],
  )
  return readPriceGroup(wanted, rules)
}

/** A price group as operators see it. */
export interface StoredPriceGroup extends PriceGroupName {
  /** Null: it was removed. */
  readonly rules: PriceRules | null
  /** Why the current version was made, and when. */
  readonly reason: string
  readonly changedAt: Date
}

export interface ListedPriceGroup extends StoredPriceGroup {
  readonly rules: PriceRules
  readonly tiers: string[]
  readonly customers: bigint
}

const SELECT_GROUPS = `
  SELECT g.name, g.version, v.rules, v.reason, v.at AS "changedAt"
    FROM price_group g JOIN price_group_version v USING (name, version)`

/** Returns the groups that were not removed, by name, with the tiers and the number of customers that have them. */
export async function listPriceGroups(sql: Sql): Promise<ListedPriceGroup[]> {
  const { rows } = await sql.query<ListedPriceGroup>(`
    SELECT s.*, coalesce(t.tiers, '{}') AS tiers, coalesce(c.customers, 0) AS customers
      FROM (${SELECT_GROUPS} WHERE v.rules IS NOT NULL) AS s
      LEFT JOIN (SELECT price_group, array_agg(account_tier ORDER BY account_tier) AS tiers FROM tier_price_group GROUP BY 1) t
        ON t.price_group = s.name
      LEFT JOIN (SELECT price_group, count(*) AS customers FROM customer WHERE price_group IS NOT NULL GROUP BY 1) c
        ON c.price_group = s.name
     ORDER BY s.name`)
  return rows
}

/** Returns the versions of a group, the newest first. */
export async function listPriceGroupVersions(sql: Sql, name: string): Promise<StoredPriceGroup[]> {
  const { rows } = await sql.query<StoredPriceGroup>(
    'SELECT name, version, rules, reason, at AS "changedAt" FROM price_group_version WHERE name = $1 ORDER BY version DESC LIMIT 100',
    [name],
  )
  return rows
}

/** Returns a group, also one that was removed, and locks it until the end of the transaction. */
export async function lockPriceGroup(sql: Sql, name: string): Promise<StoredPriceGroup | undefined> {
  // Read in a later statement: one that waited for the lock would not see the version that was written meanwhile.
  await sql.query('SELECT FROM price_group WHERE name = $1 FOR UPDATE', [name])
  const { rows } = await sql.query<StoredPriceGroup>(`${SELECT_GROUPS} WHERE g.name = $1`, [name])
  return rows[0]
}

/**
 * Writes a new version, in a transaction that holds the lock of `lockPriceGroup`. All nodes use it within two seconds. Returns the
 * version. Throws ApiError `changed_meanwhile` for a new group of a name that another transaction has just taken: there was no row
 * to lock.
 */
export async function writePriceGroup(
  sql: Sql,
  {
    name,
    rules,
    reason,
    isNew = false,
  }: {
    readonly name: string
    readonly rules: PriceRules | null
    readonly reason: string
    readonly isNew?: boolean
  },
): Promise<number> {
  const { rows } = await sql.query<{ version: number }>(
    `INSERT INTO price_group AS g (name, version) VALUES ($1, 1)
     ON CONFLICT (name) DO UPDATE SET version = g.version + 1 WHERE NOT $2 RETURNING version`,
    [name, isNew],
  )
  const version = rows[0]?.version
  if (version === undefined) throw new ApiError('changed_meanwhile')
  await sql.query('INSERT INTO price_group_version (name, version, rules, reason) VALUES ($1, $2, $3, $4)', [
    name,
    version,
    rules === null ? null : JSON.stringify(rules),
    reason,
  ])
  await bumpControlVersion(sql, 'access')
  return version
}

/** Whether customers or tiers have the group. */
export async function isPriceGroupUsed(sql: Sql, name: string): Promise<boolean> {
  const { used } = await queryRow<{ used: boolean }>(
    sql,
    `SELECT EXISTS (SELECT FROM customer WHERE price_group = $1) OR EXISTS (SELECT FROM tier_price_group WHERE price_group = $1) AS used`,
    [name],
  )
  return used
}

/** Gives a customer a group; null: that of its tier. Returns the group that it had before; undefined: there is no such customer. */
export async function setCustomerPriceGroup(
  sql: Sql,
  customerId: string,
  name: string | null,
): Promise<{ readonly before: string | null } | undefined> {
  const { rows } = await sql.query<{ before: string | null }>(
    `UPDATE customer c SET price_group = $2 FROM (SELECT price_group AS before FROM customer WHERE customer_id = $1 FOR UPDATE) b
      WHERE c.customer_id = $1 RETURNING b.before`,
    [customerId, name],
  )
  if (rows[0] !== undefined) await bumpControlVersion(sql, 'access')
  return rows[0]
}

/** Gives an account tier a group; null: none. Returns the group that it had before. */
export async function setTierPriceGroup(sql: Sql, accountTier: string, name: string | null): Promise<string | null> {
  const { rows } = await sql.query<{ name: string }>(
    'SELECT price_group AS name FROM tier_price_group WHERE account_tier = $1 FOR UPDATE',
    [accountTier],
  )
  if (name === null) await sql.query('DELETE FROM tier_price_group WHERE account_tier = $1', [accountTier])
  else
    await sql.query(
      `INSERT INTO tier_price_group (account_tier, price_group) VALUES ($1, $2)
       ON CONFLICT (account_tier) DO UPDATE SET price_group = excluded.price_group`,
      [accountTier, name],
    )
  await bumpControlVersion(sql, 'access')
  return rows[0]?.name ?? null
}

/** Whether one of the account tiers has a price group. */
export async function hasPriceGroup(sql: Sql, accountTiers: readonly string[]): Promise<boolean> {
  const { found } = await queryRow<{ found: boolean }>(
    sql,
    'SELECT EXISTS (SELECT FROM tier_price_group WHERE account_tier = ANY ($1)) AS found',
    [accountTiers],
  )
  return found
}

/** The prices of a customer: its own group, else that of its tier. */
export interface CustomerPrices {
  readonly own: string | null
  readonly ofTier: string | null
  readonly current: PriceGroupName | null
}

export async function readCustomerPrices(sql: Sql, customerId: string): Promise<CustomerPrices> {
  const { rows } = await sql.query<{ own: string | null; ofTier: string | null; name: string | null; version: number }>(
    `SELECT c.price_group AS own, t.price_group AS "ofTier", g.name, g.version
       FROM customer c LEFT JOIN tier_price_group t USING (account_tier)
       LEFT JOIN price_group g ON g.name = coalesce(c.price_group, t.price_group)
      WHERE c.customer_id = $1`,
    [customerId],
  )
  const { own = null, ofTier = null, name = null, version = 0 } = rows[0] ?? {}
  return { own, ofTier, current: name === null ? null : { name, version } }
}
