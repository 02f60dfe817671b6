import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, expect, test, vi } from 'vitest'
import type { Sql } from '../../src/base/db/pool.ts'
import { transaction } from '../../src/base/db/pool.ts'
import type { AccountLimits } from '../../src/base/domain/caller.ts'
import { mintApiKey } from '../../src/identity/auth/api-key.ts'
import { createAuthenticator } from '../../src/identity/auth/authenticator.ts'
import { findKeys, issueKey, listKeys, revokeKey } from '../../src/identity/auth/keys.ts'
import { addCustomer, findCustomer, promoteAccountTier, setAccountTier } from '../../src/money/accounts/customers.ts'
import { createPriceGroupReader } from '../../src/money/accounts/price-groups.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const tiers: Record<string, AccountLimits> = {
  free: { requestsPerMinute: 20, requestsPerDay: 1_000, dailySpendCapNanos: 5_000_000_000n },
  scale: { requestsPerMinute: 3_000, requestsPerDay: 1_000_000, dailySpendCapNanos: 5_000_000_000_000n },
}

const database = useTestDatabase()
let customerId: string
let key: string
let keyId: string

beforeEach(async () => {
  const email = `a${Math.random().toString(36).slice(2)}@example.com`
  const customer = await addCustomer(database.pool, { email, accountTier: 'free' })
  customerId = customer!.customerId
  ;({ key, keyId } = await transaction(database.pool, sql => issueKey(sql, { customerId, name: 'test' })))
})

/**
 * Creates an authenticator whose clock and change signal the test controls, on a database that counts
 * queries.
 */
function authenticatorUnderTest(sql: Sql = database.pool) {
  let nowMs = Date.now()
  let listener = () => {}
  let queries = 0
  const counted: Sql = {
    query: (statement, values) => {
      queries++
      return sql.query(statement, values)
    },
  }
  const authenticator = createAuthenticator({
    sql: counted,
    clock: { epochMs: () => nowMs, monotonicMs: () => nowMs },
    limitsOf: tier => tiers[tier]!,
    findPrices: createPriceGroupReader(counted),
    onAccessChange: added => {
      listener = added
      return () => {}
    },
  })
  const authenticate = async (rawHeaders: readonly string[]) => authenticator.authenticate(rawHeaders)
  return {
    call: (secret: string = key) => authenticate(['Authorization', `Bearer ${secret}`]),
    authenticate,
    changed: () => listener(),
    passMs: (ms: number) => {
      nowMs += ms
    },
    queries: () => queries,
  }
}

const refused = { code: 'invalid_api_key' }

test('a key identifies its customer with the limits of the account tier', async () => {
  const auth = authenticatorUnderTest()
  expect(await auth.call()).toMatchObject({ customerId, keyId, accountTier: 'free', limits: tiers.free })
})

test("the customer's own limits override those of the tier", async () => {
  await database.pool.query(
    'UPDATE customer SET requests_per_day = 7, daily_spend_cap_nanos = 0 WHERE customer_id = $1',
    [customerId],
  )
  const { limits } = await authenticatorUnderTest().call()
  expect(limits).toEqual({ requestsPerMinute: 20, requestsPerDay: 7, dailySpendCapNanos: 0n })
})

test('a cached key costs no query, and a hundred concurrent requests cost one', async () => {
  const auth = authenticatorUnderTest()
  const callers = await Promise.all(Array.from({ length: 100 }, () => auth.call()))
  await auth.call()
  expect(new Set(callers).size).toBe(1)
  expect(auth.queries()).toBe(1)
})

test('concurrent look-ups share a statement, and each gets its own key', async () => {
  const auth = authenticatorUnderTest()
  const issue = () => transaction(database.pool, sql => issueKey(sql, { customerId, name: 'one of many' }))
  const issued = await Promise.all(Array.from({ length: 20 }, issue))
  const strangers = Array.from({ length: 20 }, () => auth.call(mintApiKey()))
  const callers = await Promise.all(issued.map(({ key }) => auth.call(key)))
  expect(callers.map(({ keyId }) => keyId)).toEqual(issued.map(({ keyId }) => keyId))
  for (const stranger of strangers) await expect(stranger).rejects.toMatchObject(refused)
  expect(auth.queries()).toBe(1)
})

test('look-ups during two running statements form the third, and get the error if those fail', async () => {
  const statements: PromiseWithResolvers<void>[] = []
  const auth = authenticatorUnderTest({
    async query(statement, values) {
      const started = Promise.withResolvers<void>()
      statements.push(started)
      await started.promise
      return database.pool.query(statement, values)
    },
  })
  const call = async () => {
    const asked = auth.call(mintApiKey()).catch(error => error)
    await nextTurn()
    return { asked }
  }
  const [one, two, ...more] = [await call(), await call(), await call(), await call()]
  expect(statements).toHaveLength(2)
  statements[0]!.resolve()
  expect(await one.asked).toMatchObject(refused)
  await vi.waitFor(() => expect(statements).toHaveLength(3), WAIT_OPTIONS)
  const last = await call()
  statements[1]!.reject(new Error('the connection broke'))
  for (const { asked } of [two, last]) expect(await asked).toMatchObject({ code: 'database_unavailable' })
  statements[2]!.resolve()
  for (const { asked } of more) expect(await asked).toMatchObject(refused)
  expect(statements).toHaveLength(3)
})

test('a key in use never waits for the database: it is renewed in the background', async () => {
  let [running, failing] = [0, false]
  const sql: Sql = {
    query: async (statement, values) => {
      running++
      if (failing) throw new Error('no database')
      return database.pool.query(statement, values)
    },
  }
  const auth = authenticatorUnderTest(sql)
  const first = await auth.call()
  await database.pool.query('UPDATE customer SET requests_per_day = 7 WHERE customer_id = $1', [customerId])
  auth.passMs(29_999)
  await auth.call()
  expect(running).toBe(1)

  failing = true
  auth.passMs(1)
  expect(await Promise.all([auth.call(), auth.call()])).toEqual([first, first])
  await nextTurn()
  expect(running).toBe(2)
  auth.passMs(4_999)
  expect(await auth.call()).toBe(first)
  await nextTurn()
  expect(running).toBe(2)

  failing = false
  auth.passMs(1)
  expect(await auth.call()).toBe(first)
  await expect.poll(async () => (await auth.call()).limits.requestsPerDay, WAIT_OPTIONS).toBe(7)
  auth.passMs(29_999)
  await auth.call()
  await nextTurn()
  expect(running).toBe(3)
})

test('a malformed key costs no query', async () => {
  const wrong = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
  const auth = authenticatorUnderTest()
  for (const headers of [[], ['Authorization', 'Bearer '], ['Authorization', `Bearer ${key}x`], ['x-api-key', wrong]]) {
    await expect(auth.authenticate(headers)).rejects.toMatchObject(refused)
  }
  expect(auth.queries()).toBe(0)
})

test('an unknown key with a valid checksum costs one query in two seconds', async () => {
  const auth = authenticatorUnderTest()
  const stranger = mintApiKey()
  await expect(auth.call(stranger)).rejects.toMatchObject(refused)
  auth.passMs(1_999)
  await expect(auth.call(stranger)).rejects.toMatchObject(refused)
  expect(auth.queries()).toBe(1)
  auth.passMs(1)
  await expect(auth.call(stranger)).rejects.toMatchObject(refused)
  expect(auth.queries()).toBe(2)
})

test('a revoked key is refused as soon as the change is known, and after a minute anyway', async () => {
  const notified = authenticatorUnderTest()
  const unnotified = authenticatorUnderTest()
  await Promise.all([notified.call(), unnotified.call()])
  expect(await transaction(database.pool, sql => revokeKey(sql, keyId))).toBe(true)
  notified.changed()
  await expect(notified.call()).rejects.toMatchObject(refused)
  unnotified.passMs(59_999)
  await unnotified.call()
  unnotified.passMs(1)
  await expect(unnotified.call()).rejects.toMatchObject(refused)
})

test('a look-up that started before a change is not cached', async () => {
  const read = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  const slow: Sql = {
    query: async (statement, values) => {
      const result = await database.pool.query(statement, values)
      read.resolve()
      await answered.promise
      return result as never
    },
  }
  const auth = authenticatorUnderTest(slow)
  const early = auth.call()
  await read.promise
  await transaction(database.pool, sql => revokeKey(sql, keyId))
  auth.changed()
  answered.resolve()
  await early
  await expect(auth.call()).rejects.toMatchObject(refused)
})

test('a key is refused from the moment of its expiry, even if it is cached', async () => {
  const auth = authenticatorUnderTest()
  const expiresAt = new Date(Date.now() + 3_600_000)
  const issued = await transaction(database.pool, sql => issueKey(sql, { customerId, name: 'hour', expiresAt }))
  await auth.call(issued.key)
  auth.passMs(30_000)
  await auth.call(issued.key)
  auth.passMs(3_600_000 - 30_000 + 1_000)
  await expect(auth.call(issued.key)).rejects.toMatchObject(refused)
})

test('the keys of a disabled customer are refused', async () => {
  await database.pool.query('UPDATE customer SET disabled_at = now() WHERE customer_id = $1', [customerId])
  await expect(authenticatorUnderTest().call()).rejects.toMatchObject(refused)
})

test('a refused key is accepted as soon as a change that enables it is known', async () => {
  const auth = authenticatorUnderTest()
  await database.pool.query('UPDATE customer SET disabled_at = now() WHERE customer_id = $1', [customerId])
  await expect(auth.call()).rejects.toMatchObject(refused)
  await database.pool.query('UPDATE customer SET disabled_at = NULL WHERE customer_id = $1', [customerId])
  await expect(auth.call()).rejects.toMatchObject(refused)
  auth.changed()
  expect(await auth.call()).toMatchObject({ customerId })
})

test('memory is bounded: the least recently used key is looked up again, and a key in use is not', async () => {
  const { rows } = await database.pool.query('SELECT * FROM customer WHERE customer_id = $1', [customerId])
  const everyKey: Sql = {
    query: async (_statement, [hashes] = []) => {
      const access = { scopes: [], routing_defaults: null }
      const found = (hashes as Buffer[]).map(hash => ({ ...rows[0]!, key_hash: hash.toString('base64'), ...access }))
      return { rows: found, rowCount: found.length } as never
    },
  }
  const auth = authenticatorUnderTest(everyKey)
  const [first, second, ...others] = Array.from({ length: 10_000 }, () => mintApiKey())
  await Promise.all([first, second, ...others].map(auth.call))
  auth.passMs(1_000)
  await auth.call(first)
  const before = auth.queries()
  await auth.call(mintApiKey())
  await auth.call(first)
  expect(auth.queries()).toBe(before + 1)
  await auth.call(second)
  expect(auth.queries()).toBe(before + 2)
})

test('an unreachable database is reported as such, not as a wrong key', async () => {
  const failing: Sql = { query: () => Promise.reject(new Error('connection refused')) }
  await expect(authenticatorUnderTest(failing).call()).rejects.toMatchObject({ code: 'database_unavailable' })
})

test('the access version changes in the same transaction as the access', async () => {
  const version = async () =>
    (await database.pool.query<{ version: bigint }>("SELECT version FROM control_version WHERE topic = 'access'"))
      .rows[0]!.version
  const before = await version()
  await transaction(database.pool, async sql => {
    await issueKey(sql, { customerId, name: 'undone' })
    throw new Error('undo')
  }).catch(() => {})
  expect(await version()).toBe(before)
  await transaction(database.pool, sql => setAccountTier(sql, customerId, 'scale'))
  expect(await version()).toBe(before + 1n)
  expect(await transaction(database.pool, sql => revokeKey(sql, keyId))).toBe(true)
  expect(await transaction(database.pool, sql => revokeKey(sql, keyId))).toBe(false)
  expect(await version()).toBe(before + 2n)
  expect(
    await authenticatorUnderTest()
      .call()
      .catch(error => error),
  ).toMatchObject(refused)
})

test('the database never sees the key', async () => {
  const { rows } = await database.pool.query<{ row: string }>('SELECT api_key::text AS row FROM api_key')
  expect(rows.filter(({ row }) => row.includes(key.slice(10)) || row.includes(key))).toEqual([])
  const [listed] = await listKeys(database.pool, customerId)
  expect(listed).toMatchObject({ keyId, name: 'test', hint: `${key.slice(0, 10)}…${key.slice(-4)}`, revokedAt: null })
  expect(await findKeys(database.pool, listed!.hint)).toEqual([listed])
  expect(await findKeys(database.pool, keyId.toUpperCase())).toEqual([listed])
})

test('an e-mail belongs to one customer in any case', async () => {
  const email = `Case${customerId}@Example.com`
  const first = await addCustomer(database.pool, { email, accountTier: 'free' })
  expect(await addCustomer(database.pool, { email: email.toLowerCase(), accountTier: 'free' })).toBeUndefined()
  expect(await findCustomer(database.pool, email.toUpperCase())).toEqual(first)
  expect(await findCustomer(database.pool, first!.customerId)).toEqual(first)
  expect(await findCustomer(database.pool, 'nobody')).toBeUndefined()
})

test('a promotion happens from the expected tier only', async () => {
  const promote = () =>
    transaction(database.pool, sql => promoteAccountTier(sql, { customerId, from: 'free', to: 'scale' }))
  expect(await promote()).toBe(true)
  expect(await promote()).toBe(false)
  expect((await authenticatorUnderTest().call()).limits).toEqual(tiers.scale)
})
