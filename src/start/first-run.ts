import { randomUUID } from 'node:crypto'
import { type Pool, type Sql, transaction } from '../base/db/pool.ts'
import type { Nanos } from '../base/domain/money.ts'
import { issueKey } from '../identity/auth/keys.ts'
import { makeWelcomeLink } from '../identity/people/links.ts'
import { findPerson, setMember } from '../identity/people/persons.ts'
import { createCustomer, findCustomer } from '../money/accounts/customers.ts'
import { openAccount } from '../money/ledger/accounts/open-account.ts'
import type { Config } from './config/config.ts'

/** Created by the first start. `apiKey` is the only copy of the key: the database stores a hash. */
export interface FirstRun {
  readonly email: string
  readonly customerId: string
  readonly apiKey: string
  readonly creditNanos: Nanos
  /** The path of the link with which the operator sets a password. It works once, for 24 hours. */
  readonly welcomePath: string
}

/**
 * On a new installation, creates the operator and a first customer with the signup credit and an API key, in
 * one transaction. When several nodes start at the same time, only one of them does. Returns undefined when they
 * already exist.
 */
export async function ensureFirstRun({
  pool,
  config,
}: {
  pool: Pool
  config: Pick<Config, 'signup' | 'initEmail'>
}): Promise<FirstRun | undefined> {
  const email = config.initEmail
  return transaction(pool, async sql => {
    // Other nodes wait here, up to their lock timeout, and then find the row.
    await sql.query('SELECT pg_advisory_xact_lock($1)', [FIRST_RUN_LOCK])
    if (await isDone(sql)) return undefined
    const customerId = await ensureCustomer(sql, config, email)
    const personId = await addOperator(sql, email, customerId)
    const welcomePath = await makeWelcomeLink(sql, personId, Date.now())
    const { key } = await issueKey(sql, { customerId, name: 'first key' })
    await sql.query('INSERT INTO installation (name, value) VALUES ($1, $2)', [DONE, new Date().toISOString()])
    return { email, customerId, apiKey: key, creditNanos: config.signup.creditNanos, welcomePath }
  })
}

/** "sy1r" in ASCII; any number that no other lock uses would do. */
const FIRST_RUN_LOCK = 0x7379_3172
const DONE = 'first_run_at'

async function isDone(sql: Sql): Promise<boolean> {
  return (await sql.query('SELECT FROM installation WHERE name = $1', [DONE])).rows.length > 0
}

/**
 * Returns the id of the customer with this email. The operator may have added the customer by hand before the
 * first start.
 */
async function ensureCustomer(sql: Sql, config: Pick<Config, 'signup'>, email: string): Promise<string> {
  const created = await createCustomer(sql, config, { email, accountTier: tierOf(config) })
  if (created) return created.customerId
  const { customerId } = (await findCustomer(sql, email))!
  await openAccount(sql, customerId, config.signup.creditNanos)
  return customerId
}

/**
 * The operator tries things out, alone and in the playground: 20 requests a minute of the tier for strangers are soon used up.
 * The credit stays the limit of what that costs.
 */
function tierOf({ signup }: Pick<Config, 'signup'>): string {
  return signup.tier === 'free' ? 'standard' : signup.tier
}

async function addOperator(sql: Sql, email: string, customerId: string): Promise<string> {
  await sql.query(
    `INSERT INTO person (person_id, email, installation_role) VALUES ($1, $2, 'operator')
     ON CONFLICT ((lower(email))) DO UPDATE SET installation_role = 'operator'`,
    [randomUUID(), email],
  )
  const { personId } = (await findPerson(sql, email))!
  await setMember(sql, { customerId, personId, role: 'owner' })
  return personId
}
