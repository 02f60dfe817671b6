import { randomUUIDv7 } from 'node:crypto'
import type { Pool } from '../../src/base/db/pool.ts'
import type { KeyLimit, MemberLimit } from '../../src/base/domain/caller.ts'
import { setMemberLimit } from '../../src/identity/people/member-limits.ts'

/** Adds a person with a spend limit to a customer. */
export async function addLimitedMember(pool: Pool, customerId: string, limit: KeyLimit): Promise<MemberLimit> {
  const personId = randomUUIDv7()
  const email = `${personId}@example.org`
  await pool.query('INSERT INTO person (person_id, email) VALUES ($1, $2)', [personId, email])
  await pool.query(`INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'developer')`, [
    customerId,
    personId,
  ])
  await setMemberLimit(pool, customerId, personId, limit)
  return { personId, email, ...limit }
}
