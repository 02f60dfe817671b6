import { expect, test } from 'vitest'
import { createCustomerShares } from '../../src/market/trust/audits/customer-shares.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createCustomers, NOW_MS } from './trust-world.ts'

// What the house pays a day for requests that customers share.

const database = useTestDatabase()
const DAY_NANOS = 1_000n

async function world({ togetherNanos = DAY_NANOS, count = 2 } = {}) {
  await database.pool.query('DELETE FROM shared_request_spend')
  let nowMs = NOW_MS
  const shares = createCustomerShares({
    ...{ pool: database.pool, clock: { epochMs: () => nowMs }, purpose: 'shadow', dayNanos: DAY_NANOS, togetherNanos },
  })
  const customers = (await createCustomers(database, count)) as [string, string]
  return {
    shares,
    customers,
    /** Returns whether a request was sent that costs all that was reserved for it, or so much. */
    spend: async (customerId: string, mostNanos: bigint, costNanos: bigint | null = mostNanos) =>
      (await shares.pay(customerId, mostNanos, async noteCost => {
        noteCost(costNanos)
        return true
      })) ?? false,
    nextDay() {
      nowMs += 86_400_000
    },
  }
}

/** Counts how many requests are paid. */
async function countPaid(spend: () => Promise<boolean>): Promise<number> {
  for (let count = 0; ; count++) if (!(await spend())) return count
}

test('a customer has a tenth of the day, and leaves the rest to others', async () => {
  const { customers, spend, nextDay } = await world()
  const [large, other] = customers
  expect(await countPaid(() => spend(large, 10n))).toBe(10)
  expect(await spend(other, 10n)).toBe(true)
  nextDay()
  expect(await spend(large, 10n)).toBe(true)
})

test('one request may cost a hundredth of the day', async () => {
  const { customers, spend, shares } = await world()
  expect([shares.isAffordable(10n), shares.isAffordable(11n)]).toEqual([true, false])
  expect(await spend(customers[0], 11n)).toBe(false)
})

test('what a request did not cost is given back, unless the cost is not known', async () => {
  const { customers, spend, shares } = await world()
  const [cheap, unknown] = customers
  for (let n = 0; n < 50; n++) expect(await spend(cheap, 10n, 1n)).toBe(true)
  const failing = shares.pay(cheap, 10n, () => Promise.reject(new Error('no answer')))
  await expect(failing).rejects.toThrow('no answer')
  expect(await countPaid(() => spend(cheap, 10n))).toBe(5)
  expect(await countPaid(() => spend(unknown, 10n, null))).toBe(10)
})

test('requests at the same time do not exceed the share', async () => {
  const { customers, spend } = await world()
  const paid = await Promise.all(Array.from({ length: 30 }, () => spend(customers[0], 10n)))
  expect(paid.filter(isPaid => isPaid)).toHaveLength(10)
})

test('all customers together have their part, and those that cannot pay are known', async () => {
  const { customers, spend, shares } = await world({ togetherNanos: 250n, count: 3 })
  const [first, second, third] = customers as readonly string[]
  await countPaid(() => spend(first!, 10n))
  const whoCanPay = async () => customers.map(await shares.whoCanPay())
  expect(await whoCanPay()).toEqual([false, true, true])
  await countPaid(() => spend(second!, 10n))
  expect(await countPaid(() => spend(third!, 10n))).toBe(5)
  expect(await whoCanPay()).toEqual([false, false, false])
})
