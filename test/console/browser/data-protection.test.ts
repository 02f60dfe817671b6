import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { makeOperator, PASSWORD } from '../../harness/browser-client.ts'
import { axeFindings, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp } from '../../harness/use-test-app.ts'

// What is kept of people and customers: saved by themselves and by operators, and erased.

const app = useTestApp()
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(watched => watched.complaints)
  await Promise.all(open.splice(0).map(({ context }) => context.close()))
  expect(complaints.filter(text => !/status of 4\d\d/.test(text))).toEqual([])
})

async function pageOf(customerId: string, width = 1280) {
  const watched = await openSignedIn(chromium.browser, app, customerId, { width })
  open.push(watched)
  return watched
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

async function tablesOf(page: Page, save: () => Promise<void>): Promise<Record<string, unknown[]>> {
  const [download] = await Promise.all([page.waitForEvent('download', { timeout: 60_000 }), save()])
  return JSON.parse(await readFile(await download.path(), 'utf8')).tables
}

test.each([1280, 360])('an owner saves what is kept, after the password, at %i px', async width => {
  const { customerId } = await app.customer()
  const { page, email } = await pageOf(customerId, width)
  await app.database.pool.query("UPDATE person_session SET confirmed_at = now() - interval '11 minutes'")
  await page.goto(`/c/${customerId}/settings`)
  const person = await tablesOf(page, async () => {
    await button(page, 'Save what is kept of you').click()
    await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
    await page.getByRole('dialog').getByRole('button', { name: 'Continue' }).click()
  })
  expect(person.person).toMatchObject([{ email }])
  await page.getByText(/^Saved: [\d.]+ kB$/).waitFor()
  const customer = await tablesOf(page, () => button(page, 'Save what is kept of this customer').click())
  expect(customer.customer).toMatchObject([{ customer_id: customerId }])
  expect(await axeFindings(page)).toEqual([])
})

test('an operator saves and erases a person, and deletes a customer by typing its address', async () => {
  const { customerId } = await app.customer()
  await pageOf(customerId)
  const viewer = await openSignedIn(chromium.browser, app, customerId, { role: 'viewer' })
  open.push(viewer)
  const { page, email } = await pageOf((await app.customer()).customerId)
  await makeOperator(app, email)
  await page.goto('/operator/people')
  await button(page, `Data of ${viewer.email}`).click()
  const dialog = page.getByRole('dialog')
  const person = await tablesOf(page, () => button(page, 'Save what is kept').click())
  expect(person.person).toMatchObject([{ email: viewer.email }])
  const erase = dialog.getByRole('button', { name: 'Erase the person' })
  expect(await erase.isDisabled()).toBe(true)
  await dialog.getByLabel(`Type ${viewer.email} to confirm`).fill(viewer.email)
  expect(await axeFindings(page)).toEqual([])
  await erase.click()
  await page.getByText('The person is erased.').waitFor()
  await expect.poll(() => page.getByRole('button', { name: `Data of ${viewer.email}` }).count()).toBe(0)

  const { rows } = await app.database.pool.query<{ email: string }>(
    'SELECT email FROM customer WHERE customer_id = $1',
    [customerId],
  )
  const name = rows[0]!.email
  await page.goto(`/operator/customers/${customerId}`)
  const customer = await tablesOf(page, () => button(page, 'Save what is kept').click())
  expect(customer.customer).toMatchObject([{ email: name }])
  await button(page, 'Delete the customer').click()
  await dialog.getByLabel(`Type ${name} to confirm`).fill(name)
  await dialog.getByRole('button', { name: 'Delete for good' }).click()
  await page.getByText('The customer is deleted. Its balance and its ledger stay in the books.').waitFor()
  await expect.poll(() => button(page, 'Delete the customer').count()).toBe(0)
})
