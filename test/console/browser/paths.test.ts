import { Secret, TOTP } from 'otpauth'
import { afterEach, expect, test } from 'vitest'
import { transaction } from '../../../src/base/db/pool.ts'
import { makeInviteLink } from '../../../src/identity/people/links.ts'
import { setMember } from '../../../src/identity/people/persons.ts'
import { sumPlatformDays } from '../../../src/operator/platform-days.ts'
import { makeOperator, operatorToken, PASSWORD, signedInMember } from '../../harness/browser-client.ts'
import { openPage, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'

// What people do, in a real browser, from the first link to the last click.

const app = useDemoApp()
const chromium = useChromium()
const open: WatchedPage[] = []

async function newPage(): Promise<WatchedPage['page']> {
  const watched = await openPage(chromium.browser, { baseURL: app.url })
  open.push(watched)
  return watched.page
}

/** Signs a person in by the form. */
async function signedInPage(customerId: string, role: 'owner' | 'viewer' = 'owner') {
  const { email } = await signedInMember(app, customerId, role)
  const page = await newPage()
  await page.goto(`/c/${customerId}`)
  await page.getByLabel('E-mail address').fill(email)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Home' }).waitFor()
  return { page, email }
}

async function chat(key: string): Promise<number> {
  const response = await fetch(`${app.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', max_tokens: 5, messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  await response.text()
  return response.status
}

afterEach(async () => {
  // The refusals that the tests provoke are no faults.
  const complaints = open.flatMap(each => each.complaints).filter(text => !/status of 4\d\d/.test(text))
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

test('from the first link to the receipt of the first request', async () => {
  const { customerId, key } = await app.customer()
  const { token, personId } = await operatorToken(app, `op-${customerId}@example.com`)
  await transaction(app.database.pool, sql => setMember(sql, { customerId, personId, role: 'owner' }))
  const page = await newPage()
  await page.goto(`/welcome#${token}`)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  expect(page.url()).not.toContain(token)
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('link', { name: 'Not now' }).click()
  // Operators start on their own home. The customer is one choice away.
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.getByRole('button', { name: 'All customers' }).click()
  await page.getByRole('menuitem', { name: /^Customer/ }).click()
  await page.getByText('Waiting for your first request').waitFor()
  expect(await page.getByRole('region', { name: 'the curl example' }).textContent()).toContain(`${app.url}/v1`)

  expect(await chat(key)).toBe(200)
  await page.getByRole('link', { name: 'demo' }).first().click()
  await page.getByText('Which servers').waitFor()
  const receipt = page.getByRole('dialog', { name: 'Receipt' })
  await expect.poll(() => receipt.textContent()).toMatch(/0\.000\d+ USD= \d+ input × 0\.1 \+ 5 output × 0\.4/)
  // The receipt has an address of its own.
  expect(page.url()).toMatch(/\/activity\/[0-9a-f-]{36}$/)
  await page.reload()
  await receipt.getByText('answered after').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('heading', { name: 'Activity' }).waitFor()
})

test('a key is made, shown once, used, limited and deleted', async () => {
  const { customerId } = await app.customer()
  const { page } = await signedInPage(customerId)
  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByRole('button', { name: 'Make a key' }).click()
  await page.getByLabel('Name').fill('laptop')
  await page.getByLabel('Limit in USD').fill('5')
  await page.getByRole('button', { name: 'Make the key' }).click()
  const secret = (await page.getByRole('region', { name: 'the key' }).textContent())!
  expect(secret).toMatch(/^sk-sy-/)
  expect(await page.getByRole('button', { name: 'Close' }).isDisabled()).toBe(true)
  await page.getByLabel('I have stored the key').check()
  await page.getByRole('button', { name: 'Close' }).click()
  expect(await page.content()).not.toContain(secret)
  expect(await chat(secret)).toBe(200)
  const row = page.getByRole('row', { name: /laptop/ })
  await expect.poll(() => row.textContent()).toContain('of 5.00 USD')

  await page.getByRole('button', { name: 'Actions of laptop' }).click()
  await page.getByRole('menuitem', { name: 'Change' }).click()
  await page.getByLabel('Limit in USD').fill('0,5')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect.poll(() => row.textContent()).toContain('of 0.50 USD')

  await page.getByRole('button', { name: 'Actions of laptop' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  expect(await page.getByRole('button', { name: 'Delete the key' }).isDisabled()).toBe(true)
  await page.getByLabel('Type laptop to confirm').fill('laptop')
  await page.getByRole('button', { name: 'Delete the key' }).click()
  await page.getByText('stops working within two seconds').waitFor()
  await expect.poll(() => chat(secret)).toBe(401)
})

test('a wrong limit is refused at its field, and nothing is lost', async () => {
  const { customerId } = await app.customer()
  const { page } = await signedInPage(customerId)
  await page.goto(`/c/${customerId}/keys`)
  await page.getByRole('button', { name: 'Make a key' }).click()
  await page.getByLabel('Name').fill('bot')
  await page.getByLabel('Limit in USD').fill('lots')
  await page.getByRole('button', { name: 'Make the key' }).click()
  await page.getByLabel('Limit in USD').and(page.locator('[aria-invalid=true]')).waitFor()
  expect(await page.getByLabel('Name').inputValue()).toBe('bot')
})

test('the playground streams an answer and shows what it cost', async () => {
  const { customerId } = await app.customer()
  const { page } = await signedInPage(customerId)
  await page.getByRole('link', { name: 'Playground' }).click()
  await page.getByLabel('Prompt', { exact: true }).fill('Hello!')
  await page.getByRole('button', { name: 'Send' }).click()
  const receipt = page.getByRole('link', { name: 'receipt' })
  await receipt.waitFor()
  expect(await page.getByRole('article').last().textContent()).toMatch(/demo model.*Cost0\.\d+ USD.*\d+ tokens/s)
  await receipt.click()
  await page.getByText('Which servers').waitFor()
})

test('a session that ends elsewhere hides the page and asks for the password, then the page goes on', async () => {
  const { customerId } = await app.customer()
  const { page } = await signedInPage(customerId)
  await page.goto(`/c/${customerId}/models`)
  await page.getByLabel('Search').fill('dem')
  await app.database.pool.query('DELETE FROM person_session')
  await page.getByText('Your session has ended').waitFor()
  expect(await page.getByLabel('Search').isVisible()).toBe(false)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('Your session has ended').waitFor({ state: 'hidden' })
  expect(await page.getByLabel('Search').inputValue()).toBe('dem')
})

test('another person who signs in over a page gets none of what it shows', async () => {
  const { customerId } = await app.customer()
  const viewer = await signedInMember(app, customerId, 'viewer')
  const { page } = await signedInPage(customerId)
  await page.goto(`/c/${customerId}/keys`)
  await page.getByRole('button', { name: 'Make a key' }).waitFor()
  await app.database.pool.query('DELETE FROM person_session')
  await page.getByText('Your session has ended').waitFor()
  await page.getByLabel('E-mail address').fill(viewer.email)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('Only owners and developers see keys').waitFor()
  expect(await page.getByRole('button', { name: 'Make a key' }).count()).toBe(0)
})

test('an invited person joins, and a viewer sees no keys', async () => {
  const { customerId } = await app.customer()
  const email = `guest-${customerId}@example.com`
  const link = await transaction(app.database.pool, sql =>
    makeInviteLink(sql, { customerId, email, role: 'viewer' }, Date.now()),
  )
  const page = await newPage()
  await page.goto(link)
  await page.getByLabel('Your name').fill('Grace')
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.getByRole('button', { name: 'Join' }).click()
  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByText('Only owners and developers see keys').waitFor()
  expect(await page.getByRole('button', { name: 'Make a key' }).count()).toBe(0)
})

test('an owner invites a person, changes the role and removes the person', async () => {
  const { customerId } = await app.customer()
  const { page } = await signedInPage(customerId)
  await page.goto(`/c/${customerId}/settings/people`)
  await page.getByRole('button', { name: 'Invite a person' }).click()
  await page.getByLabel('E-mail address').fill(`new-${customerId}@example.com`)
  await page.getByRole('button', { name: 'Invite', exact: true }).click()
  const link = (await page.getByRole('region', { name: 'the link' }).textContent())!
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('button', { name: 'Take back' }).waitFor()

  const guest = await newPage()
  await guest.goto(link)
  await guest.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await guest.getByRole('button', { name: 'Join' }).click()
  await guest.getByRole('heading', { name: 'Home' }).waitFor()

  await page.reload()
  await page.getByLabel(`Role of new-${customerId}@example.com`).first().click()
  await page.getByRole('option', { name: /Viewer/ }).click()
  await page.getByText('The role is changed').waitFor()
  await page.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await page.getByText('is no member any more').waitFor()
  await guest.reload()
  await guest.getByText('You are not a member of this customer').waitFor()
})

test('a person adds an authenticator app, and signs in with its code', async () => {
  const { customerId } = await app.customer()
  const { page, email } = await signedInPage(customerId)
  await page.goto(`/c/${customerId}/settings/security`)
  await page.getByRole('button', { name: 'Add an app' }).click()
  await page.getByRole('img', { name: 'The secret for a camera' }).waitFor()
  const secret = (await page.getByRole('region', { name: 'the secret' }).textContent())!
  const totp = new TOTP({ secret: Secret.fromBase32(secret) })
  const nowMs = Date.now()
  await page.getByLabel('Code').fill(totp.generate({ timestamp: nowMs }))
  await page.getByRole('button', { name: 'Add the app' }).click()
  const codes = (await page.getByRole('region', { name: 'the recovery codes' }).textContent())!.split('\n')
  expect(codes).toHaveLength(10)
  await page.getByRole('button', { name: 'I have stored them' }).click()

  const other = await newPage()
  await other.goto('/')
  await other.getByLabel('E-mail address').fill(email)
  await other.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await other.getByRole('button', { name: 'Sign in' }).click()
  await other.getByLabel('Code').fill(codes[0]!)
  await other.getByRole('button', { name: 'Sign in' }).click()
  await other.getByRole('heading', { name: 'Home' }).waitFor()
})

test('names and model output are text, never markup', async () => {
  const { customerId } = await app.customer()
  const { page } = await signedInPage(customerId)
  const name = '<img src=x onerror=alert(1)>'
  await page.goto(`/c/${customerId}/keys`)
  await page.getByRole('button', { name: 'Make a key' }).click()
  await page.getByLabel('Name').fill(name)
  await page.getByRole('button', { name: 'Make the key' }).click()
  await page.getByLabel('I have stored the key').check()
  await page.getByRole('button', { name: 'Close' }).click()
  await page.getByRole('link', { name }).waitFor()
  expect(await page.locator('main img').count()).toBe(0)
  const hostile = '<img src="https://evil.example/a"> ![x](https://evil.example/b) [y](javascript:alert(1)) **bold**'
  await page.route('**/v1/chat/completions', route => {
    const chunk = JSON.stringify({ choices: [{ delta: { content: hostile } }] })
    return route.fulfill({ contentType: 'text/event-stream', body: `data: ${chunk}\n\ndata: [DONE]\n\n` })
  })
  await page.goto(`/c/${customerId}/playground`)
  await page.getByLabel('Prompt', { exact: true }).fill('Hello!')
  await page.getByRole('button', { name: 'Send' }).click()
  const answer = page.getByRole('article').last()
  await answer.locator('strong', { hasText: 'bold' }).waitFor()
  expect(await answer.locator('img, script').count()).toBe(0)
  expect(await answer.locator('a[href*="evil"], a[href^="javascript"]').count()).toBe(0)
})

test('the whole way by the keyboard: sign in, find a page, open a receipt', async () => {
  const { customerId, key } = await app.customer()
  expect(await chat(key)).toBe(200)
  const { email } = await signedInMember(app, customerId)
  const page = await newPage()
  await page.goto(`/c/${customerId}`)
  await page.getByLabel('E-mail address').focus()
  await page.keyboard.type(email)
  await page.keyboard.press('Tab')
  await page.keyboard.type(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Home' }).waitFor()
  await page.keyboard.press('Control+k')
  await page.locator('[role=dialog] :focus').waitFor()
  await page.keyboard.type('activ')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Activity' }).waitFor()
  await page.getByRole('link', { name: 'demo' }).first().focus()
  await page.keyboard.press('Enter')
  await page.getByText('Which servers').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog', { name: 'Receipt' }).waitFor({ state: 'hidden' })
})

test('an operator sees what a grant would do, and grants it', async () => {
  const { customerId } = await app.customer()
  const { page, email } = await signedInPage(customerId)
  await makeOperator(app, email)
  await page.goto(`/operator/customers/${customerId}?grant=true`)
  await page.getByLabel('USD').fill('25')
  await page.getByRole('combobox', { name: 'Kind' }).click()
  await page.getByRole('option', { name: /^Paid/ }).click()
  await page.getByLabel('Reason').fill('invoice 7')
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('region', { name: 'What would happen' }).and(page.locator(':focus')).waitFor()
  await dialog.getByText('Balance afterwards').waitFor()
  expect(await dialog.textContent()).toMatch(/Balance now5\.00 USDBalance afterwards30\.00 USD/)
  const balance = async () =>
    (await app.database.pool.query('SELECT posted_nanos FROM balance WHERE customer_id = $1', [customerId])).rows[0]
  expect(await balance()).toEqual({ posted_nanos: 5_000_000_000n })
  await page.getByRole('button', { name: 'Grant it' }).click()
  await page.getByText('25.00 USD are granted').waitFor()
  await page.waitForURL(url => url.search === '')
  expect(await balance()).toEqual({ posted_nanos: 30_000_000_000n })
})

test('a grant asks for the password when it was typed long ago', async () => {
  const { customerId } = await app.customer()
  const { page, email } = await signedInPage(customerId)
  await makeOperator(app, email)
  await app.database.pool.query("UPDATE person_session SET confirmed_at = confirmed_at - interval '1 hour'")
  await page.goto(`/operator/customers/${customerId}`)
  await page.getByRole('button', { name: 'Grant credit' }).click()
  await page.getByLabel('USD').fill('1')
  await page.getByLabel('Reason').fill('thanks')
  await page.getByRole('button', { name: 'See what would happen' }).click()
  await page.getByRole('alert').getByText('is_promotion').waitFor()
  await page.getByRole('combobox', { name: 'Kind' }).click()
  await page.getByRole('option', { name: /^Promotion/ }).click()
  await page.getByRole('button', { name: 'See what would happen' }).click()
  await page.getByRole('button', { name: 'Grant it' }).click()
  const again = page.getByRole('dialog', { name: 'Type your password again' })
  await again.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await again.getByRole('button', { name: 'Continue' }).click()
  await page.getByText('1.00 USD are granted').waitFor()
})

test('the pages of the operator do not exist for others', async () => {
  const { customerId } = await app.customer()
  const { page } = await signedInPage(customerId)
  await page.goto('/operator/customers')
  await page.getByRole('heading', { name: 'Page not found' }).waitFor()
})

test('an operator sees a charge in the overview without a reload, and splits it by customer, model and day', async () => {
  const customer = await app.customer()
  const { customerId, key } = customer
  const { page, email } = await signedInPage(customerId)
  await makeOperator(app, email)
  let overviews = 0
  page.on('request', request => {
    if (request.url().endsWith('/operator/overview')) overviews += 1
  })
  await page.goto('/operator')
  const held = page.getByText('Balances of customers').locator('..')
  const before = await held.textContent()
  await app.customer({ creditNanos: 700_000_000_000n })
  await expect.poll(() => held.textContent()).not.toBe(before)
  // The stream carries the overview itself: nothing is read again.
  expect(overviews).toBe(1)

  expect(await chat(key)).toBe(200)
  // A job sums all customers each minute.
  await app.settled(customer, 1)
  await transaction(app.database.pool, sql => sumPlatformDays(sql, Date.now()))
  const { rows } = await app.database.pool.query<{ email: string }>(
    'SELECT email FROM customer WHERE customer_id = $1',
    [customerId],
  )
  const billing = rows[0]!.email
  // The home has read the sums of before; they are read again after a while.
  await page.goto('/operator/usage')
  await page.getByRole('radiogroup').getByText('Customer', { exact: true }).click()
  await page.getByRole('link', { name: billing }).click()
  // Its models, of today only.
  await page.getByRole('button', { name: `Customer: ${customerId.slice(0, 8)}` }).waitFor()
  await page.getByRole('img', { name: /USD charged/ }).focus()
  await page.keyboard.press('End')
  await page.keyboard.press('Enter')
  const today = new Date().toISOString().slice(0, 10)
  await page.waitForURL(
    url => url.searchParams.get('from') === today && url.searchParams.get('customer') === customerId,
  )
  await expect.poll(() => page.getByRole('row', { name: /^demo/ }).textContent()).toMatch(/demo1/)
})
