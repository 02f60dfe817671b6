import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { testOffer } from '../../harness/app.ts'
import { makeOperator } from '../../harness/browser-client.ts'
import { useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

// What stands in the way on a phone of 360 px, and whether numbers end below their titles.

const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(watched => watched.complaints)
  await Promise.all(open.splice(0).map(({ context }) => context.close()))
  expect(complaints).toEqual([])
})

async function operatorPage(width: number): Promise<{ page: Page; customerId: string }> {
  const customer = await app.customer()
  const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  for (let sent = 0; sent < 2; sent++) await (await app.chat(customer, chat)).arrayBuffer()
  await app.settled(customer, 2)
  const { customerId } = customer
  const watched = await openSignedIn(chromium.browser, app, customerId, { width })
  open.push(watched)
  await makeOperator(app, watched.email)
  return { page: watched.page, customerId }
}

const bottomOf = async (page: Page, selector: string) => {
  const box = await page.locator(selector).first().boundingBox()
  return box!.y + box!.height
}

test.each(['/operator/requests', '/c/CUSTOMER/activity'])(
  'on a phone, the filters of %s are behind one button that counts them',
  async path => {
    const { page, customerId } = await operatorPage(360)
    await page.goto(path.replace('CUSTOMER', customerId))
    const model = page.getByLabel('Model', { exact: true }).first()
    const button = page.getByRole('button', { name: 'Filters', exact: true })
    await button.waitFor()
    await page.getByRole('table').first().waitFor()
    expect(await model.isVisible()).toBe(false)
    expect((await page.getByRole('row').nth(1).boundingBox())!.y).toBeLessThan(700)
    await button.click()
    await model.waitFor()
    await page.goto(`${path.replace('CUSTOMER', customerId)}?model=test-model`)
    await page.getByRole('button', { name: 'Filters (1)' }).waitFor()
  },
)

test('on a phone, the menu finds, settings are searched, and notices leave the bar free', async () => {
  const { page, customerId } = await operatorPage(360)
  await page.goto(`/c/${customerId}`)
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('dialog', { name: 'Menu' }).getByRole('button', { name: 'Find' }).click()
  await page
    .getByRole('dialog')
    .getByRole('textbox')
    .or(page.getByRole('dialog').getByRole('combobox'))
    .first()
    .waitFor()
  await page.keyboard.press('Escape')

  await page.goto('/operator/settings')
  await page.getByRole('searchbox', { name: 'Find a setting' }).fill('requests a minute')
  const change = page.getByRole('button', { name: 'Change account_tiers.free.requests_per_minute' })
  await change.click()
  expect(await page.getByRole('table').count()).toBe(1)
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('textbox').first().fill('121')
  await dialog.getByRole('textbox', { name: 'Reason' }).fill('more')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('alert').waitFor()
  const bar = await page.getByRole('navigation', { name: 'Main pages' }).boundingBox()
  expect(await bottomOf(page, '[role="alert"]')).toBeLessThanOrEqual(bar!.y)
})

test('a long command scrolls beside its icon, not below it', async () => {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId, { width: 360 })
  open.push(watched)
  const { page } = watched
  await page.goto(`/c/${customerId}`)
  const block = page.locator('section:has(> pre)').first()
  await block.waitFor()
  const [command, icon] = await Promise.all([
    block.boundingBox(),
    block.locator('xpath=..').getByRole('button').first().boundingBox(),
  ])
  expect(command!.x + command!.width).toBeLessThanOrEqual(icon!.x)
})

/** How far the numbers of the first row end before their titles, in px. */
const GAPS = `(() => {
  const endOf = element => {
    const range = document.createRange()
    range.selectNodeContents(element)
    return Math.max(...[...range.getClientRects()].filter(({ width }) => width > 0).map(({ right }) => right))
  }
  const table = document.querySelector('table')
  const cells = [...table.querySelectorAll('tbody tr:first-child td')]
  return [...table.querySelectorAll('th')].flatMap((title, index) =>
    title.dataset.align === 'right' ? [Math.round(endOf(title.querySelector('button') ?? title) - endOf(cells[index]))] : [],
  )
})()`

test('numbers end where their titles end', async () => {
  const { page, customerId } = await operatorPage(1280)
  for (const path of ['/operator/requests', `/c/${customerId}/activity`]) {
    await page.goto(path)
    await page.getByRole('table').getByRole('row').nth(2).waitFor()
    const gaps = await page.evaluate<number[]>(GAPS)
    expect(gaps.length).toBeGreaterThan(0)
    expect(new Set(gaps)).toEqual(new Set([0]))
  }
})
