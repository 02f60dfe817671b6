import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import type { FailpointName } from '../../src/base/runtime/failpoint.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import type { OperatorPayment } from '../../src/wire/api/operator/payments.ts'
import type { TopUp } from '../../src/wire/api/payments.ts'
import { databaseUrl } from '../cli/run-cli.ts'
import { BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { startGatewayProcess } from '../nodes/gateway-process.ts'
import { sendEvent, startScriptedStripe, WEBHOOK_SECRET } from './scripted-stripe.ts'

const database = useTestDatabase()

test('a gateway that is killed at each failpoint of payments books everything once', async () => {
  const stripe = await startScriptedStripe()
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-payments-'))
  await writeFile(
    join(directory, 'switchyard.yaml'),
    `demo: { enabled: false }
detect: { enabled: false, cloud: false }
payments:
  stripe: { secret_key: sk_test_x, webhook_secret: ${WEBHOOK_SECRET}, api_url: "${stripe.url}" }
`,
  )
  const env = { DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_MASTER_KEY: '5'.repeat(64) }
  const { pool } = database
  const { customerId } = await transaction(pool, async sql => {
    const added = (await addCustomer(sql, { email: 'payer@example.com', accountTier: 'free' }))!
    await openAccount(sql, added.customerId, 0n)
    return added
  })
  const balance = async () =>
    (
      await pool.query<{ posted: bigint }>('SELECT posted_nanos AS posted FROM balance WHERE customer_id = $1', [
        customerId,
      ])
    ).rows[0]!.posted

  /** Runs a gateway that is killed by `work` at the failpoint; null: it lives. */
  async function withGateway(failpoint: FailpointName | null, work: (url: string) => Promise<unknown>): Promise<void> {
    const armed: Record<string, string> = failpoint === null ? {} : { SWITCHYARD_FAILPOINTS: `${failpoint}:kill` }
    const gateway = await startGatewayProcess({ directory, env: { ...env, ...armed } })
    try {
      if (failpoint === null) {
        await work(gateway.url)
        return
      }
      await expect(work(gateway.url), failpoint).rejects.toThrow()
      expect(await gateway.ended, failpoint).toBe('SIGKILL')
    } finally {
      await gateway.stop()
    }
  }

  // The people sign in once: sessions are in the database.
  let cookies: Record<'payer' | 'operator', string> | undefined
  async function signIn(url: string): Promise<void> {
    const app = { url, database } as Parameters<typeof signedInMember>[0]
    const payer = (await signedInMember(app, customerId, 'billing')).browser
    const operator = (await signedInOperator(app)).browser
    cookies = { payer: payer.cookie!, operator: operator.cookie! }
  }
  const as = (role: 'payer' | 'operator', url: string) => new BrowserClient(url, { cookie: cookies![role] })
  const key = randomUUID()
  const start = (url: string) =>
    as('payer', url).send('POST', `customers/${customerId}/top-ups`, { amount_usd: 25 }, { 'idempotency-key': key })
  const reconcile = (url: string) => as('operator', url).post('operator/payments/reconcile')

  try {
    await withGateway('payment-started', async url => {
      await signIn(url)
      await start(url)
    })
    await withGateway('payment-charged', reconcile)
    let paymentId = ''
    let event = ''
    await withGateway('payment-event-noted', async url => {
      const response = await start(url)
      expect(response.status).toBe(200)
      const started = (await response.json()) as TopUp
      expect(started.redirect_url).toBe('https://checkout.stripe.test/pay')
      paymentId = started.id
      event = stripe.pay([...stripe.sessions.keys()][0]!)
      await sendEvent(url, event)
    })
    for (const failpoint of ['payment-looked', 'payment-booking'] as const) {
      await withGateway(failpoint, url => sendEvent(url, event))
      expect(await balance(), failpoint).toBe(0n)
    }
    await withGateway('payment-booked', url => sendEvent(url, event))
    expect(await balance()).toBe(25_000_000_000n)
    const refund = { amount_usd: 10, reason: 'asked for it' }
    await withGateway('payment-refunded', async url => {
      expect((await sendEvent(url, event)).status).toBe(200)
      expect(await balance()).toBe(25_000_000_000n)
      await as('operator', url).post(`operator/payments/${paymentId}/refunds`, refund)
    })
    await withGateway(null, async url => {
      expect((await reconcile(url)).status).toBe(200)
      const shown = (await (await as('operator', url).get(`operator/payments/${paymentId}`)).json()) as OperatorPayment
      expect(shown).toMatchObject({ state: 'paid', reversed_usd: 10, reversals: [{ state: 'done', taken_usd: 10 }] })
    })
  } finally {
    await stripe.close()
    await rm(directory, { recursive: true, force: true })
  }
  expect(await balance()).toBe(15_000_000_000n)
  // One checkout, one refund: the ids of the books are the idempotency keys.
  expect(stripe.writes.map(write => write.split(' ')[0])).toEqual(['/v1/checkout/sessions', '/v1/refunds'])
  const { rows } = await pool.query("SELECT kind FROM ledger_tx WHERE kind IN ('payment', 'reversal') ORDER BY tx_id")
  expect(rows).toEqual([{ kind: 'payment' }, { kind: 'reversal' }])
  expect((await audit(pool)).filter(({ violations }) => violations > 0)).toEqual([])
})
