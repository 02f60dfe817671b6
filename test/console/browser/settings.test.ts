import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { makeOperator } from '../../harness/browser-client.ts'
import { axeFindings, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp } from '../../harness/use-test-app.ts'

// What operators change of the installation while the gateway runs, in a real browser.

const app = useTestApp({ yaml: 'models: { default_max_tokens: 100 }' })
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(watched => watched.complaints)
  await Promise.all(open.splice(0).map(({ context }) => context.close()))
  expect(complaints.filter(text => !/status of 4\d\d/.test(text))).toEqual([])
})

async function operatorPage(): Promise<Page> {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  await makeOperator(app, watched.email)
  return watched.page
}

const click = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).click()
const row = (page: Page, table: string, key: string) =>
  page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: key })

test('a setting is changed and taken back, a tier is added, and what the file declares is only shown', async () => {
  const page = await operatorPage()
  await page.goto('/operator/settings')
  await row(page, 'New customers', 'credit_usd').getByText('default').waitFor()
  await click(page, 'Change signup.credit_usd')
  await page.getByRole('textbox', { name: 'signup.credit_usd' }).fill('7.25')
  await page.getByLabel('Reason').fill('a campaign')
  expect(await axeFindings(page)).toEqual([])
  await click(page, 'Save')
  await row(page, 'New customers', 'credit_usd').getByText('7.25').waitFor()
  await page.getByText(/Version 1, .*: a campaign/).waitFor()
  await click(page, 'Change signup.credit_usd')
  await page.getByLabel('Reason').fill('it is over')
  await click(page, 'Use the default')
  await row(page, 'New customers', 'credit_usd').getByText('5.00').waitFor()

  await click(page, 'Add a tier')
  await page.getByRole('textbox', { name: 'Name' }).fill('gold')
  await page.getByLabel('Requests per minute').fill('7')
  await page.getByLabel('Requests per day').fill('70')
  await page.getByLabel('Daily spend cap').fill('seven')
  await page.getByLabel('Reason').fill('for partners')
  await click(page, /^Add$/)
  await page.getByText(/^“Daily spend cap in USD” is "seven"/).waitFor()
  await page.getByLabel('Daily spend cap').fill('7')
  await click(page, /^Add$/)
  await row(page, 'Tiers', 'gold.daily_spend_cap_usd').getByText('7').waitFor()

  const inFile = row(page, 'Requests', 'default_max_tokens')
  await inFile.getByText('from switchyard.yaml').waitFor()
  expect(await inFile.getByRole('button').count()).toBe(0)
})
