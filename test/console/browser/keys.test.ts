import { afterEach, expect, test } from 'vitest'
import { makeOperator } from '../../harness/browser-client.ts'
import { axeFindings, settled, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'

const app = useDemoApp()
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints).filter(text => !/status of 4\d\d/.test(text))
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

async function statusOf(key: string): Promise<number> {
  const response = await fetch(`${app.url}/v1/key`, { headers: { authorization: `Bearer ${key}` } })
  await response.text()
  return response.status
}

async function keysPage(limitNanos?: bigint) {
  const { customerId, key } = await app.customer({
    key: { name: 'laptop', ...(limitNanos !== undefined && { limit: { limitNanos, reset: 'monthly' } }) },
  })
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  await watched.page.goto(`/c/${customerId}/keys`)
  await watched.page.getByText('laptop').first().waitFor()
  return { ...watched, customerId, key }
}

test('a key is paused with two clicks, and resumed with two more', async () => {
  const { page, key } = await keysPage()
  await page.getByRole('button', { name: 'Actions of laptop' }).click()
  await page.getByRole('menuitem', { name: 'Pause' }).click()
  await page.getByText('It is refused within two seconds.').waitFor()
  await expect.poll(() => statusOf(key)).toBe(403)
  await page.getByRole('row', { name: /laptop paused/ }).waitFor()
  await page.getByRole('button', { name: 'Actions of laptop' }).click()
  await page.getByRole('menuitem', { name: 'Resume' }).click()
  await expect.poll(() => statusOf(key)).toBe(200)
})

test('a replaced key is shown once, and the former one works until its grace ends', async () => {
  const { page, key } = await keysPage()
  await page.getByRole('button', { name: 'Actions of laptop' }).click()
  await page.getByRole('menuitem', { name: 'Replace' }).click()
  await page.getByRole('button', { name: 'Make the new key' }).click()
  const secret = (await page.getByRole('region', { name: 'the key' }).textContent())!
  await page.getByLabel('I have stored the key').check()
  await page.getByRole('button', { name: 'Close' }).click()
  expect(await page.content()).not.toContain(secret)
  await page.getByText('the former key works until').waitFor()
  await expect.poll(() => statusOf(secret)).toBe(200)
  expect(await statusOf(key)).toBe(200)
})

test('a key that leaked is found by pasting a line with it, stopped, and replaced by one that works', async () => {
  const { page, key } = await keysPage()
  await page.getByRole('button', { name: 'A key leaked?' }).click()
  const field = page.getByRole('textbox', { name: 'The leaked key' })
  await field.fill('sk-sy-unknown')
  await page.getByRole('button', { name: 'Find it' }).click()
  await page.getByRole('alert').waitFor()
  // A whole key is looked for at once, also within a text.
  await field.fill(`export OPENAI_API_KEY="${key}"`)
  await page.getByText('This is the key laptop').waitFor()
  expect(page.url()).not.toContain(key)
  expect(await page.content()).not.toContain(key)
  await page.getByRole('button', { name: 'Only pause it' }).click()
  await page.getByText('It is paused').waitFor()
  await expect.poll(() => statusOf(key)).toBe(403)
  await page.getByRole('button', { name: 'Replace it now' }).click()
  await page.getByRole('button', { name: 'Make the new key' }).click()
  const secret = (await page.getByRole('region', { name: 'the key' }).textContent())!
  await expect.poll(() => statusOf(secret)).toBe(200)
  await expect.poll(() => statusOf(key)).toBe(401)
})

test('with the keyboard, buttons have a ring, and a closed dialog gives the focus back to what opened it', async () => {
  const { page } = await keysPage()
  const isFocused = (name: string) => page.getByRole('button', { name }).and(page.locator(':focus')).waitFor()
  const make = page.getByRole('button', { name: 'Make a key' })
  for (const name of ['Make a key', 'A key leaked?']) {
    await page.getByRole('button', { name }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await isFocused(name)
  }
  await page.getByRole('button', { name: 'Actions of laptop' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('menuitem', { name: 'Change' }).press('Enter')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
  await isFocused('Actions of laptop')
  await make.focus()
  await page.keyboard.press('Shift+Tab')
  await page.keyboard.press('Tab')
  expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid')
})

test('a tiny limit that is used up has no findings of axe', async () => {
  const { page } = await keysPage(1n)
  await settled(page)
  expect(await axeFindings(page)).toEqual([])
})

test('an operator makes a key for a customer, and pauses it', async () => {
  const { page, email, customerId } = await keysPage()
  await makeOperator(app, email)
  await page.goto(`/operator/customers/${customerId}`)
  await page.getByRole('button', { name: 'Make a key' }).click()
  await page.getByLabel('Name').fill('handed over')
  await page.getByRole('button', { name: 'Make the key' }).click()
  const secret = (await page.getByRole('region', { name: 'the key' }).textContent())!
  await page.getByLabel('I have stored the key').check()
  await page.getByRole('button', { name: 'Close' }).click()
  await expect.poll(() => statusOf(secret)).toBe(200)
  await page.getByRole('button', { name: 'Pause handed over' }).click()
  await expect.poll(() => statusOf(secret)).toBe(403)
})
