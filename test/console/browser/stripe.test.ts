import { expect, test } from 'vitest'
import { testOffer } from '../../harness/app.ts'
import { signedInOperator } from '../../harness/browser-client.ts'
import { useChromium } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useResource } from '../../harness/use-resource.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'
import { type ScriptedStripe, sendEvent, startScriptedStripe, WEBHOOK_SECRET } from '../../payments/scripted-stripe.ts'

const upstream = useUpstream()
const stripe: ScriptedStripe = useResource(startScriptedStripe, server => server.close())
const app = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl)],
  yaml: `payments:\n  stripe:\n    secret_key: sk_test_x\n    api_url: ${stripe.url}\n    webhook_secret: ${WEBHOOK_SECRET}\n`,
}))
const chromium = useChromium()

test('a Stripe top-up is followed live: doubled, late and lost events, a chargeback, and a won one', async () => {
  const { customerId } = await app.customer({ creditNanos: 0n, tier: 'free' })
  const { browser: operator } = await signedInOperator(app)
  const { page, context, complaints } = await openSignedIn(chromium.browser, app, customerId, { role: 'billing' })
  // The page of the provider.
  await page.route('https://checkout.stripe.test/**', route =>
    route.fulfill({ contentType: 'text/html', body: '<title>Pay</title>' }),
  )
  const topUps = page.getByRole('table', { name: 'Top-ups' })
  const statement = page.getByRole('table', { name: 'Statement' })
  const balance = page.getByRole('banner')
  const send = async (event: string) => expect((await sendEvent(app.url, event)).status).toBe(200)

  /** Starts a top-up and returns to the console without having paid. Returns the session of the provider. */
  async function start(usd: string): Promise<string> {
    await page.goto(`/c/${customerId}/credits`)
    await page.getByRole('button', { name: 'Add credit' }).click()
    const dialog = page.getByRole('dialog', { name: 'Add credit' })
    await dialog.getByLabel('USD').fill(usd)
    await dialog.getByRole('button', { name: 'Continue' }).click()
    await page.waitForURL('https://checkout.stripe.test/pay')
    // The return grants nothing.
    await page.goto(`/c/${customerId}/credits`)
    await page.getByText(`${usd}.00 USD: waits for your payment`).waitFor()
    return [...stripe.sessions.keys()].at(-1)!
  }

  // Paid, and the event arrives late and twice.
  const first = await start('25')
  const paid = stripe.pay(first)
  await expect.poll(() => topUps.textContent()).toContain('waits for your payment')
  await Promise.all([send(paid), send(paid)])
  await expect.poll(() => topUps.textContent()).toMatch(/paid.*25\.00/)
  await expect.poll(() => statement.textContent()).toMatch(/Payment.*\+25\.00/)
  await expect.poll(() => balance.textContent()).toContain('25.00')
  // The first paid top-up moves the tier.
  expect((await (await operator.get(`operator/customers/${customerId}`)).json()) as object).toMatchObject({
    tier: 'standard',
  })

  // Charged back, then won; the events come in the wrong order.
  const withdrawn = stripe.dispute(first)
  await send(withdrawn)
  await expect.poll(() => topUps.textContent()).toMatch(/25\.00, 25\.00 taken back/)
  await expect.poll(() => balance.textContent()).toContain('0.00')
  const reinstated = stripe.winDispute(first)
  await send(reinstated)
  await send(withdrawn)
  await expect.poll(() => topUps.textContent()).not.toContain('taken back')
  await expect.poll(() => balance.textContent()).toContain('25.00')

  // Paid, and its event is lost: asking the provider finds it.
  stripe.pay(await start('10'))
  await operator.post('operator/payments/reconcile')
  await expect.poll(() => balance.textContent()).toContain('35.00')
  await expect.poll(() => page.getByText('waits for your payment').count()).toBe(0)
  await context.close()
  expect(complaints.filter(text => !text.includes('https://checkout.stripe.test/'))).toEqual([])
})
