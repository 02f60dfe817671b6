import { expect, test } from 'vitest'
import { encodeSettlements, type Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, settlementOf, useLedgerWorld, useNode } from './ledger-world.ts'

const world = useLedgerWorld()
const node = useNode(world)

async function settleWith(customerId: string, labels: readonly (string | null)[]): Promise<void> {
  const admissions = labels.map(() => admissionOf(customerId, 10n))
  await Promise.all(admissions.map(admission => node.ledger.admit(admission)))
  const settlements: Settlement[] = admissions.map((admission, i) =>
    settlementOf(admission, 10n, 10n, { label: labels[i]! }),
  )
  await storeOf(world.pool).settle(1, encodeSettlements(settlements))
}

async function sumsOf(customerId: string) {
  const { rows } = await world.pool.query(
    'SELECT label, sum(requests)::integer AS requests, sum(cost_nanos)::integer AS cost FROM usage_label_day WHERE customer_id = $1 GROUP BY label ORDER BY label',
    [customerId],
  )
  return rows
}

test('the charge of a labelled request is in the sum of its label, with the usage row, and unlabelled ones are in none', async () => {
  const customerId = await world.addCustomer(1_000_000n)
  await settleWith(customerId, ['bot', 'bot', null, 'web/a:1'])
  await settleWith(customerId, ['bot'])
  expect(await sumsOf(customerId)).toEqual([
    { label: 'bot', requests: 3, cost: 30 },
    { label: 'web/a:1', requests: 1, cost: 10 },
  ])
  expect(await world.violations()).toEqual([])
})

test('the 201st label of a day and later ones share a sum; known labels go on with theirs', async () => {
  const customerId = await world.addCustomer(1_000_000n)
  const labels = Array.from({ length: 230 }, (_, n) => `label-${String(n).padStart(3, '0')}`)
  await settleWith(customerId, labels.slice(0, 150))
  await settleWith(customerId, labels.slice(100))
  await settleWith(customerId, ['label-229', 'label-000', 'label-000'])
  const sums = await sumsOf(customerId)
  expect(sums).toHaveLength(201)
  expect(sums.slice(0, 2)).toEqual([
    { label: '', requests: 31, cost: 310 },
    { label: 'label-000', requests: 3, cost: 30 },
  ])
  expect(sums.at(-1)).toEqual({ label: 'label-199', requests: 1, cost: 10 })
  expect(await world.violations()).toEqual([])
})
