import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
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

/**
 * Writes a new version, in a transaction that holds the lock of `lockPriceGroup`. All nodes use it within two seconds. Returns the
 * version.
 */
export async function writePriceGroup(
  sql: Sql,
  { name, rules, reason }: { readonly name: string; readonly rules: PriceRules | null; readonly reason: string },
): Promise<number> {
  const { version } = await queryRow<{ version: number }>(
    sql,
    `INSERT INTO price_group AS g (name, version) VALUES ($1, 1)
     ON CONFLICT (name) DO UPDATE SET version = g.version + 1 RETURNING version`,
    [name],
  )
  await sql.query('INSERT INTO price_group_version (name, version, rules, reason) VALUES ($1, $2, $3, $4)', [
    name,
    version,
    rules === null ? null : JSON.stringify(rules),
    reason,
  ])
  await bumpControlVersion(sql, 'access')
  return version
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
