import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { addUsagePartitions } from '../../src/money/ledger/settlement/add-usage-partitions.ts'
import { admissionOf, settle, settlementOf, useLedgerWorld } from './ledger-world.ts'

const world = useLedgerWorld()

test('the signup credit is granted once, even by repeated and concurrent calls', async () => {
  const customerId = await world.addCustomer()
  expect(await readBalance(world.pool, customerId)).toBeUndefined()
  const granted = await Promise.all(
    Array.from({ length: 8 }, () => openAccount(world.pool, customerId, 5_000_000_000n)),
  )
  expect(granted.filter(Boolean)).toHaveLength(1)
  expect(await readBalance(world.pool, customerId)).toMatchObject({
    postedNanos: 5_000_000_000n,
    freeNanos: 5_000_000_000n,
  })
})

test('an account opened in a failed transaction does not exist', async () => {
  const customerId = await world.addCustomer()
  const failed = transaction(world.pool, async db => {
    await openAccount(db, customerId, 5n)
    throw new Error('the customer could not be written')
  })
  await expect(failed).rejects.toThrow('could not be written')
  expect(await readBalance(world.pool, customerId)).toBeUndefined()
})

test('a credit is granted once per ref, to one customer, with one amount', async () => {
  const [one, two, none] = [await world.addCustomer(0n), await world.addCustomer(0n), await world.addCustomer()]
  const grant = { customerId: one, amountNanos: 700n, ref: 'invoice 1', reason: 'paid by transfer' }
  const results = await Promise.all(Array.from({ length: 6 }, () => grantCredit(world.pool, grant)))
  expect(results.map(({ kind }) => kind).sort()).toEqual([...Array(5).fill('duplicate'), 'granted'])
  expect(await grantCredit(world.pool, { ...grant, amountNanos: 701n })).toEqual({ kind: 'ref_taken' })
  expect(await grantCredit(world.pool, { ...grant, customerId: two })).toEqual({ kind: 'ref_taken' })
  expect(await grantCredit(world.pool, { ...grant, customerId: none, ref: 'invoice 2' })).toEqual({
    kind: 'no_account',
  })
  await expect(grantCredit(world.pool, { ...grant, amountNanos: -1n })).rejects.toThrow(RangeError)
  expect(await readBalance(world.pool, one)).toMatchObject({ postedNanos: 700n })
  expect(await world.violations()).toEqual([])
})

test('usage rows are in the partition of their month, even those older than the partition', async () => {
  const { ledger } = await world.addNode()
  const customerId = await world.addCustomer(1_000n)
  const requestIdIn = (month: number) => {
    const hex = Date.UTC(2027, month, 15).toString(16).padStart(12, '0')
    return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`
  }
  const serve = async (month: number) => {
    const admission = admissionOf(customerId, 10n, { requestId: requestIdIn(month) })
    await ledger.admit(admission)
    await settle(ledger, settlementOf(admission, 10n, 5n))
  }
  await serve(11)
  await serve(0)
  expect(await addUsagePartitions(world.pool, Date.UTC(2027, 11, 31, 23))).toEqual([
    'usage_event_2027_12',
    'usage_event_2028_01',
    'usage_event_2028_02',
  ])
  expect(await addUsagePartitions(world.pool, Date.UTC(2027, 11, 31, 23))).toEqual([])
  await addUsagePartitions(world.pool, Date.UTC(2027, 0, 1))
  await serve(2)
  const { rows } = await world.pool.query<{ partition: string }>(
    'SELECT tableoid::regclass::text AS partition FROM usage_event WHERE customer_id = $1 ORDER BY request_id',
    [customerId],
  )
  expect(rows.map(row => row.partition)).toEqual(['usage_event_2027_01', 'usage_event_2027_03', 'usage_event_2027_12'])
  expect(await world.violations()).toEqual([])
})
