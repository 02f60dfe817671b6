import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Overview } from '../../src/wire/api/operator/overview.ts'
import { signedInOperator } from '../harness/browser-client.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const app = useTestApp()

test('the overview counts what waits for an operator, each with the page where it is decided', async () => {
  const { browser } = await signedInOperator(app)
  const waiting = async () => ((await (await browser.get('operator/overview')).json()) as Overview).waiting
  expect(await waiting()).toEqual([])
  const { pool } = app.database
  const { customerId } = await app.customer()
  const hoster = async (state: string) => {
    const id = randomUUID()
    await pool.query('INSERT INTO hoster (hoster_id, name, state, share_bps) VALUES ($1, $2, $3, 8000)', [
      id,
      `gpu-${id}`,
      state,
    ])
    return id
  }
  const verified = await hoster('verified')
  await hoster('applied')
  await hoster('pending')
  await pool.query("INSERT INTO hoster_appeal (appeal_id, hoster_id, text) VALUES ($1, $2, 'It was the network.')", [
    randomUUID(),
    verified,
  ])
  await pool.query("INSERT INTO payout_batch (batch_id, driver, is_live) VALUES ($1, 'csv', true)", [randomUUID()])
  await pool.query(
    `INSERT INTO payment (payment_id, customer_id, driver, purpose, amount_nanos, amount_minor, currency, is_live, reference)
     VALUES ($1, $2, 'manual', 'top_up', 5000000000, 500, 'usd', true, 'SY-1')`,
    [randomUUID(), customerId],
  )
  const invited = await browser.post('operator/invites', { email: 'bob@example.com', role: 'auditor' })
  expect(invited.status).toBe(200)
  expect(await waiting()).toEqual([
    { kind: 'hosters_verified', count: 1, link: '/operator/hosters' },
    { kind: 'hosters_joining', count: 2, link: '/operator/hosters' },
    { kind: 'appeals', count: 1, link: '/operator/hosters' },
    { kind: 'payouts_prepared', count: 1, link: '/operator/payouts' },
    { kind: 'top_ups', count: 1, link: '/operator/money' },
    { kind: 'invitations', count: 1, link: '/operator/people' },
  ])
})
