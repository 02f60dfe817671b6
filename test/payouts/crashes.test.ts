import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commandLine } from '../../src/base/domain/acting.ts'
import { type FailpointName, failpoints } from '../../src/base/runtime/failpoint.ts'
import { enrollHoster, listPayoutChanges } from '../../src/money/payouts/payout-accounts.ts'
import { approvePayouts, preparePayouts } from '../../src/money/payouts/payout-batches.ts'
import { payoutsOfHoster } from '../../src/money/payouts/read-payouts.ts'
import { createStripeConnectDriver } from '../../src/money/payouts/stripe/stripe-connect-driver.ts'
import { type ScriptedStripe, startScriptedStripe } from '../payments/scripted-stripe.ts'
import { createPayoutWorld, DAY_MS, noWait, type PayoutWorld, rules, START_MS, USD } from './payout-world.ts'

let world: PayoutWorld
let stripe: ScriptedStripe
const LATER_MS = START_MS + 60 * DAY_MS

beforeAll(async () => {
  stripe = await startScriptedStripe()
  world = await createPayoutWorld()
})
afterAll(async () => {
  expect(await world.violations()).toEqual([])
  await world.drop()
  await stripe.close()
})

const program = fileURLToPath(new URL('settle-process.ts', import.meta.url))

/** Runs the process. Returns the signal that ended it; null if it ended by itself. */
async function run(order: object): Promise<string | null> {
  const SETTLE = JSON.stringify({ connection: world.deskConnection, stripeUrl: stripe.url, ...order })
  const child = spawn(process.execPath, [program], { env: { ...process.env, SETTLE }, stdio: 'ignore' })
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null]
  return signal
}

const names = Object.keys(failpoints).filter(name => name.startsWith('payout-')) as FailpointName[]

test('a process that is killed at each failpoint of payouts pays each hoster once', async () => {
  const settings = { secretKey: 'sk_test_x', webhookSecret: null, isLive: false, hasTax: false, apiUrl: stripe.url }
  const driver = createStripeConnectDriver(settings, () => 'https://gateway.test')
  const hosterId = await world.addHoster({ hasAccount: false })
  const customerId = await world.addCustomer(100n * USD)
  await enrollHoster(world.pool, driver, { hosterId, details: null }, commandLine, noWait)
  const [change] = await listPayoutChanges(world.pool, hosterId)
  stripe.finishAccount(change!.destination!, 'bank')
  await enrollHoster(world.pool, driver, { hosterId, details: null }, commandLine, noWait)

  for (const [n, name] of names.entries()) {
    for (let charge = 0; charge < 5; charge++) await world.charge(customerId, hosterId, START_MS, USD)
    const { batchId } = await preparePayouts(world.pool, null, driver, rules, LATER_MS)
    await approvePayouts(world.pool, null, batchId!)
    if (name === 'payout-event-noted') {
      expect(await run({ batchId })).toBeNull()
      const { id } = [...stripe.transfers.values()].at(-1)!
      const { id: eventId, type } = JSON.parse(stripe.reverseTransfer(id, 100)) as { id: string; type: string }
      const event = { eventId, type, ref: id }
      expect(await run({ event, failpoints: `${name}:kill` })).toBe('SIGKILL')
      expect(await run({ event })).toBeNull()
    } else {
      expect(await run({ batchId, failpoints: `${name}:kill` }), name).toBe('SIGKILL')
      expect(await run({ batchId }), name).toBeNull()
    }
    expect(stripe.transfers.size, name).toBe(n + 1)
    const [payout] = await payoutsOfHoster(world.pool, hosterId, { limit: 1, after: null })
    const paidNanos = name === 'payout-event-noted' ? 3n * USD : 4n * USD
    expect(payout, name).toMatchObject({ state: 'paid', mismatch: null, paidNanos })
  }
  expect(stripe.writes.filter(write => write.startsWith('/v1/transfers'))).toHaveLength(names.length)
})
