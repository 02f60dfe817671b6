import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { testOffer } from '../../harness/app.ts'
import { makeOperator } from '../../harness/browser-client.ts'
import { axeFindings, settled, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { answer, status } from '../../harness/scripted-upstream.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

// The operator's pages Prices, Requests and People, and tables that sort, in a real browser.

const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)], timeouts: { serverReportIntervalMs: 20 } }))
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(watched => watched.complaints)
  await Promise.all(open.splice(0).map(({ context }) => context.close()))
  expect(complaints.filter(text => !/status of 4\d\d/.test(text))).toEqual([])
})

async function operatorPage(width = 1280): Promise<Page> {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId, { width })
  open.push(watched)
  await makeOperator(app, watched.email)
  return watched.page
}

const click = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).click()
const rowsOf = (page: Page, table: string) => page.getByRole('table', { name: table }).getByRole('row')

test('a price group is added, changed, given to a tier and a customer, and charged', async () => {
  const customer = await app.customer({ key: { name: 'laptop' } })
  const page = await operatorPage()
  await page.goto('/operator/prices')
  await page.getByText('All customers pay the list prices.').waitFor()
  await click(page, 'Add a price group')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('partners')
  await dialog.getByLabel('Percent').fill('-10')
  await dialog.getByLabel('Models with a rule').fill('test-model = half')
  await dialog.getByText('This is no rule: test-model = half').waitFor()
  await dialog.getByLabel('Models with a rule').fill('test-model = -50 %')
  await dialog.getByLabel('Reason').fill('Contract of 2026')
  expect(await axeFindings(page)).toEqual([])
  await click(page, 'Save')
  await expect
    .poll(() => rowsOf(page, 'Price groups').nth(1).textContent())
    .toMatch(/partners, version 1-10 %test-model = -50 %0/)
  await click(page, 'Add a price group')
  await dialog.getByLabel('Name').fill('schools')
  await dialog.getByLabel('Percent').fill('-30')
  await dialog.getByLabel('Reason').fill('They teach')
  await click(page, 'Save')

  const first = () => rowsOf(page, 'Price groups').nth(1).textContent()
  await expect.poll(() => rowsOf(page, 'Price groups').count()).toBe(3)
  await click(page, 'Percent')
  await expect.poll(first).toMatch(/^partners/)
  await click(page, 'Percent')
  await expect.poll(first).toMatch(/^schools/)
  const sorted = page.getByRole('columnheader', { name: 'Percent' })
  expect(await sorted.getAttribute('aria-sort')).toBe('ascending')
  await click(page, 'Percent')
  await expect.poll(first).toMatch(/^partners/)
  expect(await sorted.getAttribute('aria-sort')).toBe('none')

  await click(page, 'Change standard')
  await dialog
    .getByRole('combobox', { name: 'Price group' })
    .or(dialog.getByRole('textbox', { name: 'Price group' }))
    .click()
  await page.getByRole('option', { name: 'schools' }).click()
  await dialog.getByLabel('Reason').fill('All of them are schools')
  await click(page, 'Save')
  await expect
    .poll(() => rowsOf(page, 'Account tiers').filter({ hasText: 'standard' }).textContent())
    .toContain('schools')

  await page.goto(`/operator/customers/${customer.customerId}`)
  await click(page, 'Change prices')
  await dialog
    .getByRole('combobox', { name: 'Price group' })
    .or(dialog.getByRole('textbox', { name: 'Price group' }))
    .click()
  await page.getByRole('option', { name: 'partners' }).click()
  await dialog.getByLabel('Reason').fill('They signed')
  await click(page, /^Save$/)
  await page.getByRole('region', { name: 'Prices' }).getByText('partners').waitFor()

  await app.app.noticeChanges()
  upstream.always(answer())
  const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  expect((await app.chat(customer, body)).status).toBe(200)
  await app.settled(customer, 1)
  const { rows } = await app.database.pool.query<{ price_group: string; request_id: string }>(
    'SELECT price_group, price_group_version, request_id FROM usage_event WHERE customer_id = $1',
    [customer.customerId],
  )
  expect(rows).toMatchObject([{ price_group: 'partners', price_group_version: 1 }])
  // The receipt names what priced the request, for the operator with the way to it.
  const receipt = `/c/${customer.customerId}/activity/${rows[0]!.request_id}`
  const member = await openSignedIn(chromium.browser, app, customer.customerId)
  open.push(member)
  await member.page.goto(receipt)
  await member.page.getByRole('dialog').getByText('partners, version 1').waitFor()
  await page.goto(receipt)
  await dialog.getByRole('link', { name: 'partners, version 1' }).waitFor()

  await page.goto('/operator/prices')
  await click(page, 'Remove partners')
  await dialog.getByLabel('Reason').fill('the contract ended')
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await dialog.getByText('Customers or tiers have the price group "partners".').waitFor()
})

test.each([1280, 360])('requests of all customers are found by what a server said, at %i px', async width => {
  const customer = await app.customer({ key: { name: `key ${width}` } })
  const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  upstream.always(answer())
  await (await app.chat(customer, body)).arrayBuffer()
  upstream.always(status(500, { error: { message: `card ${width} is out of memory` } }))
  await (await app.chat(customer, body)).arrayBuffer()
  await app.settled(customer, 2)
  const page = await operatorPage(width)
  await page.goto('/operator/requests')
  await settled(page)
  const requests = () => rowsOf(page, 'Requests').count()
  expect(await requests()).toBeGreaterThan(2)
  // On a phone, the filters are behind a button.
  const openFilters = async () => {
    if (width === 360) await page.getByRole('button', { name: /^Filters/ }).click()
  }
  const search = async () => {
    await openFilters()
    await page.getByLabel('Text of the error').fill(`CARD ${width} is out`)
    await page.keyboard.press('Enter')
    await page.getByText('The texts of errors are kept for 7 days').waitFor()
    await settled(page)
    return (await requests()) - 1
  }
  // The node writes the texts with its next report.
  await expect
    .poll(async () => {
      await page.reload()
      await settled(page)
      return search()
    })
    .toBe(1)
  const found = rowsOf(page, 'Requests').nth(1)
  expect(await found.textContent()).toMatch(
    new RegExp(`no server.*error of the server.*card ${width} is out of memory`),
  )
  expect(await axeFindings(page)).toEqual([])
  await found.getByRole('link').first().click()
  const { rows } = await app.database.pool.query<{ email: string }>(
    'SELECT email FROM customer WHERE customer_id = $1',
    [customer.customerId],
  )
  const { email } = rows[0]!
  const receipt = page.getByRole('dialog', { name: 'Receipt' })
  await receipt.getByText(`error of the server, after`).waitFor()
  await receipt.getByText(`card ${width} is out of memory`).waitFor()
  expect(await receipt.getByText('Margin').locator('xpath=following-sibling::dd[1]').textContent()).toBe('0.00 USD')
  expect(await receipt.getByText(`key ${width}`).count()).toBe(1)
  await settled(page)
  expect(await axeFindings(page)).toEqual([])
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
  await receipt.getByRole('link', { name: 'as the customer sees it' }).click()
  await page.getByRole('dialog').getByText('Which servers').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const visit = page.getByRole('note')
  await visit.getByText(`You look at the customer ${email}`).waitFor()
  await visit.getByRole('link', { name: "Back to the operator's pages" }).click()
  await page.getByRole('heading', { level: 1, name: email }).waitFor()
  await page.goto('/operator/requests')
  await openFilters()
  await page.getByLabel('Text of the error').fill('nobody said this')
  await page.keyboard.press('Enter')
  await page.getByText('No such request.').waitFor()
})

test('what waits is on the overview, and the search finds payouts and alarms', async () => {
  await app.database.pool.query(
    "INSERT INTO payout_batch (batch_id, driver, is_live) VALUES (gen_random_uuid(), 'csv', true)",
  )
  const page = await operatorPage()
  await page.goto('/operator')
  await page.getByRole('region', { name: 'Waiting for you' }).getByRole('link', { name: '1 batch of payouts' }).click()
  await page.getByRole('heading', { level: 1, name: 'Payouts' }).waitFor()
  const find = async (text: string, name: string) => {
    await page.keyboard.press('Control+k')
    await page.getByRole('dialog').getByRole('textbox').fill(text)
    await page.getByRole('dialog').getByRole('link', { name }).click()
  }
  await find('alarm', 'Overview: Alarms')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await find('payout', 'Payouts')
  await page.getByRole('heading', { level: 1, name: 'Payouts' }).waitFor()
})

test('an operator sees and changes the limit of a key of a customer', async () => {
  const { customerId } = await app.customer({ key: { name: 'bot' } })
  const page = await operatorPage()
  await page.goto(`/operator/customers/${customerId}`)
  const row = rowsOf(page, 'Keys').filter({ hasText: 'bot' })
  expect(await row.textContent()).toContain('none')
  await row.getByRole('button', { name: 'Change bot' }).click()
  await page.getByRole('dialog').getByLabel('Limit in USD').fill('5')
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await row.getByText('0.00 of 5.00 USD').waitFor()
})

test('a click beside a dialog keeps what was typed, and beside the search closes it', async () => {
  const page = await operatorPage(1280)
  await page.goto('/operator/customers')
  await click(page, 'Add a customer')
  const field = page.getByRole('dialog').getByLabel('E-mail address for bills')
  await field.fill('ada@example.com')
  await settled(page)
  await page.mouse.click(5, 5)
  expect(await field.inputValue()).toBe('ada@example.com')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.keyboard.press('Control+k')
  await page.getByRole('dialog', { name: 'Find' }).waitFor()
  await settled(page)
  await page.mouse.click(5, 5)
  await page.getByRole('dialog').waitFor({ state: 'detached' })
})

test('a second operator joins by a link, adds an app, and gets the role by a click', async () => {
  // With another operator, the change would wait for that one.
  await app.database.pool.query('UPDATE person SET installation_role = NULL')
  const page = await operatorPage()
  await page.goto('/operator/people')
  await click(page, 'Invite a person')
  await page.getByRole('dialog').getByLabel('E-mail address').fill('bob@example.com')
  await page.getByRole('dialog').getByRole('button', { name: 'Invite' }).click()
  const link = (await page.getByText(/\/invite#/).textContent())!.trim()
  await click(page, 'Done')
  await page.getByRole('table', { name: 'Invitations' }).getByText('bob@example.com').waitFor()

  const context = await chromium.browser.newContext({ baseURL: app.url })
  const bob = await context.newPage()
  await bob.goto(new URL(link).pathname + new URL(link).hash)
  await bob.getByText('You are to help run this gateway as operator.').waitFor()
  await bob.getByLabel('Your name').fill('Bob')
  await bob.getByLabel('Password').first().fill('four words that nobody guesses')
  await bob.getByRole('button', { name: 'Join' }).click()
  await bob.getByRole('heading', { level: 1, name: 'Add a second factor' }).waitFor()
  await bob.goto('/')
  await bob.getByText('You are invited as operator. Add a second factor first').waitFor()
  await context.close()

  await page.reload()
  const waiting = page.getByRole('table', { name: 'Invited people without their role' })
  await waiting.getByText('not yet').waitFor()
  expect(await waiting.getByRole('button', { name: /^Give the role/ }).isDisabled()).toBe(true)
  await app.database.pool.query("UPDATE person SET totp_secret = '\\x00' WHERE email = 'bob@example.com'")
  await page.reload()
  await waiting.getByRole('button', { name: /^Give the role/ }).click()
  const role = async () => {
    const { rows } = await app.database.pool.query<{ role: string | null }>(
      "SELECT installation_role AS role FROM person WHERE email = 'bob@example.com'",
    )
    return rows[0]?.role
  }
  await expect.poll(role).toBe('operator')
  await waiting.waitFor({ state: 'detached' })
})

test('customers are sorted by the gateway, also those of pages that were not read', async () => {
  const { pool } = app.database
  // More than two pages, the newest first.
  await pool.query(
    `INSERT INTO customer (customer_id, email, account_tier, created_at)
     SELECT gen_random_uuid(), 'sorted-' || lpad(n::text, 3, '0') || '@example.com', 'standard', now() + n * interval '1 minute'
     FROM generate_series(1, 120) n`,
  )
  await pool.query(`INSERT INTO balance (customer_id) SELECT customer_id FROM customer WHERE email LIKE 'sorted-%'`)
  const page = await operatorPage()
  await page.goto('/operator/customers')
  await page.getByLabel('Search').fill('sorted-')
  const names = () => rowsOf(page, 'Customers').locator('td[data-place=name]').allTextContents()
  const numbers = (from: number, until: number, step: number) =>
    Array.from(
      { length: (until - from) / step + 1 },
      (_, n) => `sorted-${String(from + n * step).padStart(3, '0')}@example.com`,
    )
  await expect.poll(names).toEqual(numbers(120, 71, -1))
  await click(page, /^Customer$/)
  await expect.poll(names).toEqual(numbers(1, 50, 1))
  await click(page, 'Show more')
  await expect.poll(names).toEqual(numbers(1, 100, 1))
  expect(await page.getByRole('columnheader', { name: 'Customer' }).getAttribute('aria-sort')).toBe('ascending')
  // A single row has nothing to sort.
  await page.getByLabel('Search').fill('sorted-120')
  await expect.poll(names).toEqual(numbers(120, 120, 1))
  expect(await page.getByRole('columnheader', { name: 'Customer' }).getAttribute('aria-sort')).toBeNull()
  await page.getByLabel('Search').fill('sorted-')
  await expect.poll(names).toEqual(numbers(1, 100, 1))
  // What no index and no sum has cannot be sorted.
  expect(await page.getByRole('columnheader', { name: 'Keys' }).getAttribute('aria-sort')).toBeNull()
  await pool.query(
    "DELETE FROM balance USING customer c WHERE c.customer_id = balance.customer_id AND c.email LIKE 'sorted-%'",
  )
  await pool.query("DELETE FROM customer WHERE email LIKE 'sorted-%'")
})
