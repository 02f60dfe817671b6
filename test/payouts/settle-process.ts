import { createPool } from '../../src/base/db/pool.ts'
import { armFailpoints, parseFailpoints } from '../../src/base/runtime/failpoint.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { createPayoutSync } from '../../src/money/payouts/payout-sync.ts'
import { createStripeConnectDriver } from '../../src/money/payouts/stripe/stripe-connect-driver.ts'

// A process of its own that settles a batch, handles an event and asks for everything, and may be killed at a failpoint.

const { connection, stripeUrl, batchId, event, failpoints } = JSON.parse(process.env.SETTLE!)
armFailpoints(failpoints === undefined ? [] : parseFailpoints(failpoints)!)
const settings = { secretKey: 'sk_test_x', webhookSecret: null, isLive: false, hasTax: false, apiUrl: stripeUrl }
const driver = createStripeConnectDriver(settings, () => 'https://gateway.test')
const pool = createPool(connection, { max: 2, applicationName: 'settle process' })
const log = { warn: (details: object) => process.stderr.write(`${JSON.stringify(details)}\n`) }
const sync = createPayoutSync({ pool, clock: systemClock, drivers: [driver], rules: { accountWaitHours: 0 }, log })
if (event === undefined) await sync.settle(batchId)
else await sync.handleEvent(driver, event)
await sync.reconcile({ isComplete: true })
await pool.end()
