import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { commandLine } from '../../src/base/domain/acting.ts'
import { moveEarnings } from '../../src/money/payouts/earnings.ts'
import { setHosterCustomer } from '../../src/money/payouts/payout-accounts.ts'
import { useResource } from '../harness/use-resource.ts'
import { createPayoutWorld, noWait, START_MS, USD } from '../payouts/payout-world.ts'

// A repeated move of earnings answered with the hoster's customer of now, not with the one that got the money.

const world = useResource(createPayoutWorld, each => each.drop())

test('a move that is repeated names the customer that got the earnings', async () => {
  const hosterId = await world.addHoster()
  const [first, later, payer] = [await world.addCustomer(0n), await world.addCustomer(0n), await world.addCustomer(0n)]
  await world.pool.query("SELECT grant_credit($1, $2, 'paid', 'paid', false)", [payer, 10n * USD])
  await world.charge(payer, hosterId, START_MS, USD)
  await setHosterCustomer(world.pool, hosterId, first, commandLine, noWait)
  const order = { moveId: randomUUID(), hosterId, amountNanos: USD / 2n }
  const move = () => moveEarnings(world.pool, order, commandLine, START_MS)
  expect(await move()).toEqual({ verdict: 'moved', amount: USD / 2n, customer: first })
  await setHosterCustomer(world.pool, hosterId, later, commandLine, noWait)
  expect(await move()).toEqual({ verdict: 'duplicate', amount: USD / 2n, customer: first })
})
