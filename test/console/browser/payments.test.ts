import { afterEach, expect, test } from 'vitest'
import { testOffer } from '../../harness/app.ts'
import { operatorToken, PASSWORD, signedInMember } from '../../harness/browser-client.ts'
import { openPage, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

// Credit is bought in a real browser, by a customer and an operator.

const upstream = useUpstream()
const app = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl)],
  yaml: 'payments:\n  manual:\n    instructions: Send {amount} to the account 12-34 and quote {reference}.\n',
}))
const chromium = useChromium()
const open: WatchedPage[] = []
let operator: WatchedPage['page']

async function newPage(): Promise<WatchedPage['page']> {
  const watched = await openPage(chromium.browser, { baseURL: app.url })
  open.push(watched)
  return watched.page
}

async function buyerPage(customerId: string) {
  const { email } = await signedInMember(app, customerId, 'billing')
  const page = await newPage()
  await page.goto(`/c/${customerId}/credits`)
  await page.getByLabel('E-mail address').fill(email)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Credits' }).waitFor()
  return page
}

async function openOperator() {
  const { token } = await operatorToken(app, `op-${crypto.randomUUID()}@example.com`)
  operator = await newPage()
  await operator.goto(`/welcome#${token}`)
  await operator.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await operator.getByRole('button', { name: 'Continue' }).click()
  await operator.getByRole('link', { name: 'Not now' }).click()
  await operator.getByRole('heading', { name: 'Overview' }).waitFor()
  await operator.goto('/operator/money')
  await operator.getByRole('heading', { name: 'Vouchers' }).waitFor()
}

afterEach(async () => {
  // The refusals that the tests provoke are no faults.
  const complaints = open.flatMap(each => each.complaints).filter(text => !/status of 4\d\d/.test(text))
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

test('a top-up shows what to pay, and its credit arrives without a reload once the operator confirms it', async () => {
  const customer = await app.customer({ creditNanos: 0n, tier: 'free' })
  await openOperator()
  const page = await buyerPage(customer.customerId)
  await page.getByRole('button', { name: 'Add credit' }).click()
  const dialog = page.getByRole('dialog', { name: 'Add credit' })
  // No header takes this character.
  await dialog.getByLabel('USD').fill('25 €')
  await dialog.getByRole('button', { name: 'Continue' }).click()
  await dialog.getByText(/^“Amount in USD” must be/).waitFor()
  await dialog.getByLabel('USD').fill('2')
  await dialog.getByRole('button', { name: 'Continue' }).click()
  // The limits of the API, in its words.
  await expect.poll(() => dialog.locator('[id$="-error"]').textContent()).toContain('5')
  // A thousand, or one: the form is not sent.
  await dialog.getByLabel('USD').fill('1,000')
  await dialog.getByText('This can be read as 1000 or as 1.000. Write it without a comma.').waitFor()
  await dialog.getByRole('button', { name: 'Continue' }).click()
  await dialog.locator('input:invalid').waitFor()
  await dialog.getByRole('button', { name: '25 USD' }).click()
  await dialog.getByRole('button', { name: 'Continue' }).click()
  await page.getByText(/^Send 25\.00 USD to the account 12-34 and quote SY-/).waitFor()

  await operator.reload()
  await operator.getByRole('button', { name: /^Confirm SY-/ }).click()
  await operator.getByRole('button', { name: 'It has arrived' }).click()
  await operator.getByText('The credit is given.').waitFor()
  const topUps = page.getByRole('table', { name: 'Top-ups' })
  await expect.poll(() => topUps.textContent()).toMatch(/paid.*25/)
  const statement = page.getByRole('table', { name: 'Statement' })
  await expect.poll(() => statement.textContent()).toMatch(/Payment.*25/)
  expect(await app.balanceNanos(customer)).toBe(25_000_000_000n)

  await operator.getByRole('button', { name: /^Take back SY-/ }).click()
  await operator.getByLabel('Reason').fill('sent back')
  await operator.getByRole('button', { name: 'Take it back' }).click()
  await operator.getByText('The payment is taken back.').waitFor()
  await expect.poll(() => statement.textContent()).toContain('Payment taken back')
  expect(await app.balanceNanos(customer)).toBe(0n)
})

test('a voucher is made, shown once and redeemed, and works once', async () => {
  const customer = await app.customer({ creditNanos: 0n, tier: 'free' })
  await openOperator()
  await operator.getByRole('button', { name: 'Make vouchers' }).click()
  await operator.getByLabel('USD for each').fill('25')
  await operator.getByRole('button', { name: 'Make them' }).click()
  const code = await operator.getByRole('dialog', { name: 'Shown this once' }).locator('pre').textContent()
  expect(code).toMatch(/^(?:[0-9A-Z]{5}-){4}[0-9A-Z]{5}$/)
  await operator.getByRole('button', { name: 'I have stored them' }).click()

  const page = await buyerPage(customer.customerId)
  await page.getByRole('button', { name: 'Redeem a code' }).click()
  const dialog = page.getByRole('dialog', { name: 'Redeem a code' })
  await dialog.getByLabel('Code of the voucher').fill('AAAAA-AAAAA-AAAAA-AAAAA-AAAAA')
  await dialog.getByRole('button', { name: 'Redeem' }).click()
  await dialog.getByRole('alert').waitFor()
  await dialog.getByLabel('Code of the voucher').fill(code!)
  await dialog.getByRole('button', { name: 'Redeem' }).click()
  await page.getByText('The voucher has added 25.00 USD.').waitFor()
  expect(await app.balanceNanos(customer)).toBe(25_000_000_000n)

  await operator.reload()
  const vouchers = operator.getByRole('table', { name: 'Vouchers' })
  await expect.poll(() => vouchers.textContent()).toContain('redeemed')
  // The list shows the end of the code only.
  expect(await vouchers.textContent()).not.toContain(code)
})
