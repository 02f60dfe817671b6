import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { type Pool, type Sql, transaction } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import { type Caller, plainAccess } from '../../../base/domain/caller.ts'

/** How many customers send the audits. A hoster would recognise a single one by its connections. */
export const HOUSE_CUSTOMERS = 8
/** What each account has at the start of a UTC day: 1 USD. */
export const DAY_NANOS = 1_000_000_000n

/**
 * Returns the customers of the platform that send audits, with credit for the day. Creates them at the first call. They
 * have keys that nobody knows, and no members.
 */
export async function houseCallers(pool: Pool, evidence: HouseEvidence): Promise<Caller[]> {
  const known = await readHouse(pool)
  const house = known.length >= HOUSE_CUSTOMERS ? known : await transaction(pool, createHouse)
  for (const { customerId } of house) await transaction(pool, sql => fill(sql, customerId, evidence))
  return house.map(({ customerId, keyId, email }) => {
    const limits = { requestsPerMinute: 600, requestsPerDay: 100_000, dailySpendCapNanos: 10n * DAY_NANOS }
    return {
      customerId,
      keyId,
      access: plainAccess,
      email,
      accountTier: 'standard',
      sharesRequests: false,
      limits,
      prices: null,
    }
  })
}

/** See CreditEvidence in ledger/. */
export interface HouseEvidence {
  add(
    sql: Sql,
    kind: 'credit',
    ref: string,
    known: { readonly customerId: string; readonly amountNanos: bigint },
  ): Promise<void>
}

async function fill(sql: Sql, customerId: string, evidence: HouseEvidence): Promise<void> {
  const { given, ref } = await queryRow<{ given: bigint; ref: string }>(
    sql,
    `SELECT fill_house_account($1, $2) AS given, concat_ws(':', 'house', (now() AT TIME ZONE 'UTC')::date, $1::uuid) AS ref`,
    [customerId, DAY_NANOS],
  )
  if (given > 0n) await evidence.add(sql, 'credit', ref, { customerId, amountNanos: given })
}

interface House {
  readonly customerId: string
  readonly keyId: string
  readonly email: string
}

async function readHouse(sql: Sql): Promise<House[]> {
  const { rows } = await sql.query<House>(
    `SELECT customer_id AS "customerId", key_id AS "keyId", email FROM house_customer JOIN customer USING (customer_id)
      ORDER BY customer_id`,
  )
  return rows
}

async function createHouse(sql: Sql): Promise<House[]> {
  await sql.query('LOCK TABLE house_customer IN SHARE ROW EXCLUSIVE MODE')
  for (let count = (await readHouse(sql)).length; count < HOUSE_CUSTOMERS; count++) {
    const [customerId, keyId] = [randomUUID(), randomUUID()]
    await sql.query(
      `INSERT INTO customer (customer_id, email, account_tier) VALUES ($1, $2, 'standard') ON CONFLICT DO NOTHING`,
      [customerId, `audits-${customerId.slice(0, 8)}@house.invalid`],
    )
    // The hash of bytes that nobody keeps: the key opens nothing.
    const hash = createHash('sha256').update(randomBytes(32)).digest()
    await sql.query(
      `INSERT INTO api_key (key_id, customer_id, name, key_hash, hint) VALUES ($1, $2, 'audits of hosters', $3, '-')`,
      [keyId, customerId, hash],
    )
    await sql.query('INSERT INTO house_customer (customer_id, key_id) VALUES ($1, $2)', [customerId, keyId])
  }
  return readHouse(sql)
}
