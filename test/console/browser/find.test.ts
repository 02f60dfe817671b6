import { afterEach, expect, test } from 'vitest'
import { makeOperator } from '../../harness/browser-client.ts'
import { useChromium, type WatchedPage } from '../../harness/chromium.ts'
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

const statusOf = async (key: string) =>
  (await fetch(`${app.url}/v1/key`, { headers: { authorization: `Bearer ${key}` } })).status

test('the keyboard alone grants credit to a customer, pauses keys and opens pages', async () => {
  const { customerId, key } = await app.customer({ key: { name: 'laptop' } })
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  const { page, email } = watched
  const search = async (text: string) => {
    await page.keyboard.press('Control+k')
    await page.locator('[role=dialog] input:focus').waitFor()
    await page.keyboard.insertText(text)
  }
  const dialog = page.getByRole('dialog', { name: 'Find' })
  await page.goto(`/c/${customerId}`)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await search('pause key laptop')
  await dialog.getByRole('button', { name: /Pause the key laptop/ }).waitFor()
  await page.keyboard.press('Enter')
  await expect.poll(() => statusOf(key)).toBe(403)

  await makeOperator(app, email)
  const { rows } = await app.database.pool.query<{ email: string }>(
    'SELECT email FROM customer WHERE customer_id = $1',
    [customerId],
  )
  await page.goto('/operator/log')
  await page.getByRole('heading', { level: 1, name: 'Log' }).waitFor()
  await search(`grant credit to ${rows[0]!.email}`)
  await dialog.getByRole('link', { name: `Grant credit to ${rows[0]!.email}` }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').getByLabel('Reason').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })

  await search(key)
  await dialog.getByRole('link', { name: /Key laptop/ }).waitFor()
  expect(page.url()).not.toContain(key)
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })

  await page.goto(`/c/${customerId}/models`)
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor()
  // By words that no page is named after, and by what lists show of a key.
  for (const [text, found] of [
    ['invoice', 'Credits'],
    ['authenticator', 'Settings: Security'],
    ['webhook', 'Settings: Alerts'],
    [key.slice(0, 10), /laptop/],
  ] as const) {
    await search(text)
    await dialog.getByRole('link', { name: found }).first().waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }
  await page.goto('/operator/log')
  await page.getByRole('heading', { level: 1, name: 'Log' }).waitFor()

  await search('money')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Money' }).waitFor()
})
