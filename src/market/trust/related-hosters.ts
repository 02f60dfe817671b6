import type { Sql } from '../../base/db/pool.ts'
import { valueAt } from '../../base/runtime/collections.ts'

/**
 * Hosters that belong together as far as the gateway can see, with the evidence of related customers: docs/trust.md.
 */
export interface RelatedHosters {
  /**
   * Returns for each of these hosters the name of its group, which may be that of a hoster that was not asked for. Hosters that nothing
   * relates have a group of their own.
   */
  groups(hosterIds: readonly string[]): Promise<ReadonlyMap<string, string>>
  /** Returns these hosters, and all hosters that are related to one of them, also through others. */
  withRelated(hosterIds: readonly string[]): Promise<readonly string[]>
}

/**
 * What two hosters may share: people, their networks and browsers, and a customer that receives the earnings of both.
 */
const SIGNS = `
  SELECT hoster_id, 'person ' || person_id AS sign FROM hoster_member
  UNION SELECT hoster_id, 'network ' || network FROM hoster_member JOIN person_network USING (person_id)
  UNION SELECT hoster_id, 'device ' || encode(device_hash, 'hex') FROM hoster_member JOIN person_device USING (person_id)
  UNION SELECT hoster_id, 'customer ' || customer_id FROM hoster_account WHERE customer_id IS NOT NULL`

/** `related`: the hosters of $1, and all that a chain of shared signs connects to them. */
const RELATED = `
  WITH RECURSIVE signs AS MATERIALIZED (${SIGNS}), related AS (
    SELECT hoster_id FROM unnest($1::uuid[]) AS hoster_id
    UNION SELECT other.hoster_id FROM related JOIN signs own USING (hoster_id) JOIN signs other USING (sign)
  )`

export function createRelatedHosters(sql: Sql): RelatedHosters {
  return {
    async groups(hosterIds) {
      const { rows } = await sql.query<{ hosterId: string; sign: string }>(
        `${RELATED} SELECT hoster_id AS "hosterId", sign FROM signs JOIN related USING (hoster_id) ORDER BY 1, 2`,
        [hosterIds],
      )
      const groups = groupBySigns([...hosterIds, ...rows.map(({ hosterId }) => hosterId)], rows)
      return new Map(hosterIds.map(hosterId => [hosterId, valueAt(groups, hosterId)]))
    },
    async withRelated(hosterIds) {
      const { rows } = await sql.query<{ hosterId: string }>(`${RELATED} SELECT hoster_id AS "hosterId" FROM related`, [
        hosterIds,
      ])
      return rows.map(({ hosterId }) => hosterId)
    },
  }
}

/** Hosters that share a sign are in one group, and so are those that a third one connects. */
export function groupBySigns(
  hosterIds: readonly string[],
  signs: readonly { readonly hosterId: string; readonly sign: string }[],
): ReadonlyMap<string, string> {
  const groups = new Map(hosterIds.map(hosterId => [hosterId, hosterId]))
  const firstWith = new Map<string, string>()
  for (const { hosterId, sign } of signs) {
    const first = firstWith.get(sign)
    if (first === undefined) firstWith.set(sign, hosterId)
    else {
      const [group, other] = [valueAt(groups, first), valueAt(groups, hosterId)]
      for (const [member, found] of groups) if (found === other) groups.set(member, group)
    }
  }
  return groups
}
