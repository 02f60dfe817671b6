import { afterEach, expect, test } from 'vitest'
import { makeOperator } from '../../harness/browser-client.ts'
import { useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp } from '../../harness/use-test-app.ts'

const app = useTestApp({ offers: [], yaml: 'payments: { manual: { instructions: "Quote {reference}." } }' })
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints).filter(text => !/status of 4\d\d/.test(text))
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

test.each([1280, 360])('credit is added from any page with one click, at %i px', async width => {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId, { width })
  open.push(watched)
  const { page, email } = watched
  for (const path of ['/activity', '/credits']) {
    await page.goto(`/c/${customerId}${path}`)
    await page.getByRole('banner').getByRole('link', { name: 'Add credit' }).click()
    await page.getByRole('dialog', { name: 'Add credit' }).getByLabel('USD').first().waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    // An id may contain the word.
    await expect.poll(() => new URL(page.url()).search).not.toContain('add')
  }
  await makeOperator(app, email)
  await page.goto(`/c/${customerId}/keys`)
  await page.getByRole('banner').getByRole('link', { name: 'Add credit' }).click()
  await page.getByRole('dialog').getByLabel('Reason').waitFor()
})

test('a fresh gateway shows its operator what to set up', async () => {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  const { page, email } = watched
  await makeOperator(app, email)
  await page.goto('/operator')
  const setup = page.getByRole('region', { name: 'Set up this gateway' })
  await setup.getByText('No mail server is set').waitFor()
  await setup.getByRole('link', { name: 'Add a provider' }).click()
  await page.getByRole('heading', { level: 1, name: 'Providers' }).waitFor()
  await page.goto('/operator')
  await setup.getByRole('button', { name: 'Hide' }).click()
  await setup.waitFor({ state: 'detached' })
  await page.reload()
  await page.getByText('Revenue today').waitFor()
  expect(await setup.count()).toBe(0)
  await page.getByRole('button', { name: 'Show what is left to set up' }).click()
  await setup.getByText('Example for the file').first().click()
  await setup.getByText('host: mail.example.com').waitFor()
  await page.reload()
  await setup.waitFor()
})
