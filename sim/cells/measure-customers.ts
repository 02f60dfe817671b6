import { transaction } from '../../src/base/db/pool.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { hashApiKey, mintApiKey } from '../../src/identity/auth/api-key.ts'
import { createAuthenticator } from '../../src/identity/auth/authenticator.ts'
import { createCellDirectory } from '../../src/identity/auth/cell-directory.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import type { MeasuredDatabase, TableSize } from './measured-database.ts'

export interface KnownCustomer {
  readonly customerId: string
  readonly keyId: string
  readonly key: string
}

/** A customer with one key that has not sent a request. */
export interface CustomerAtRest {
  readonly rows: number
  readonly bytes: number
  readonly walBytes: number
  /** The rows and bytes of each table. */
  readonly tables: ReadonlyMap<string, TableSize>
}

const PER_TRANSACTION = 128
const CREDIT_NANOS = 1_000_000_000_000n

/**
 * Adds customers as the command line does, in a cell, each with credit and a key. Returns them with what each takes.
 *
 * @param count a multiple of 128
 */
export async function measureCustomers(
  database: MeasuredDatabase,
  count: number,
): Promise<{ customers: readonly KnownCustomer[]; atRest: CustomerAtRest }> {
  const { pool } = database
  await pool.query("SELECT start_cell('own')")
  const before = await database.readTables()
  const endUse = await database.startUse()
  const customers: KnownCustomer[] = []
  while (customers.length < count) {
    await transaction(pool, async sql => {
      for (let added = 0; added < PER_TRANSACTION; added++) {
        const email = `customer-${customers.length}@example.com`
        const customer = await addCustomer(sql, { email, accountTier: 'standard' })
        if (customer === undefined) throw new Error(`There is a customer ${email} already.`)
        const { customerId } = customer
        await openAccount(sql, customerId, CREDIT_NANOS)
        const { keyId, key } = await issueKey(sql, { customerId, name: 'production' })
        customers.push({ customerId, keyId, key })
      }
    })
  }
  const { walBytes } = await endUse()
  await database.vacuum()
  const tables = new Map<string, TableSize>()
  for (const [name, after] of await database.readTables()) {
    const rows = after.rows - (before.get(name)?.rows ?? 0)
    const bytes = after.bytes - (before.get(name)?.bytes ?? 0)
    if (rows >= count) tables.set(name, { rows: rows / count, bytes: bytes / count })
  }
  const sum = (read: (size: TableSize) => number) => [...tables.values()].reduce((all, size) => all + read(size), 0)
  const atRest = {
    rows: sum(({ rows }) => rows),
    bytes: sum(({ bytes }) => bytes),
    walBytes: walBytes / count,
    tables,
  }
  return { customers, atRest }
}

/** What the keys of other cells take, and what finding one costs. */
export interface MeasuredDirectory {
  readonly keys: number
  readonly bytesPerKey: number
  readonly walBytesPerKey: number
  /** PostgreSQL, to find the cell of a key. */
  readonly findCellCpuUs: number
  /** PostgreSQL, to find the customer and the limits of a key in its cell. */
  readonly authenticateCpuUs: number
}

const LOOK_UPS = 4_000

/** Adds keys of another cell as its replication does, and looks keys up one after the other. */
export async function measureDirectory(
  database: MeasuredDatabase,
  customers: readonly KnownCustomer[],
  keys: number,
): Promise<MeasuredDirectory> {
  const { pool } = database
  const before = (await database.readTables()).get('cell_key')?.bytes ?? 0
  const endInsert = await database.startUse()
  await pool.query(
    "INSERT INTO cell_key (key_hash, cell) SELECT sha256(n::text::bytea), 'another' FROM generate_series(1, $1::int) AS n",
    [keys],
  )
  const { walBytes } = await endInsert()
  const after = (await database.readTables()).get('cell_key')?.bytes ?? 0
  const others = Array.from({ length: LOOK_UPS }, () => mintApiKey())
  await pool.query(
    "INSERT INTO cell_key (key_hash, cell) SELECT decode(hash, 'base64'), 'another' FROM unnest($1::text[]) AS hash",
    [others.map(hashApiKey)],
  )
  await pool.query('ANALYZE')
  const deps = { sql: pool, clock: systemClock, onAccessChange: () => () => {} }
  const directory = createCellDirectory({ ...deps, name: 'own' })
  const limits = { requestsPerMinute: 1, requestsPerDay: 1, dailySpendCapNanos: 1n }
  const authenticator = createAuthenticator({
    ...deps,
    limitsOf: () => limits,
    findPrices: () => Promise.reject(new Error('No customer has a price group.')),
  })
  const cpuUsOf = async (wanted: readonly string[], find: (rawHeaders: readonly string[]) => unknown) => {
    const endUse = await database.startUse()
    for (const key of wanted) await find(['authorization', `Bearer ${key}`])
    return (await endUse()).cpuUs / wanted.length
  }
  const known = customers.slice(0, LOOK_UPS).map(({ key }) => key)
  const findCellCpuUs = await cpuUsOf(others, rawHeaders => directory.find(rawHeaders))
  const authenticateCpuUs = await cpuUsOf(known, rawHeaders => authenticator.authenticate(rawHeaders))
  directory.close()
  authenticator.close()
  return {
    keys,
    bytesPerKey: (after - before) / keys,
    walBytesPerKey: walBytes / keys,
    findCellCpuUs,
    authenticateCpuUs,
  }
}
