import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { testOffer } from '../../harness/app.ts'
import { useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

const upstream = useUpstream('file')
const app = useTestApp(() => ({
  offers: ['first', 'second'].map(place => {
    const name = `a-server-with-a-very-long-name-in-the-${place}-rack-of-some-hall`
    return testOffer(upstream.baseUrl, { endpoint: { endpointId: name, name } })
  }),
}))
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints)
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

/** The requests of a customer with two of them. */
async function activity(width: number) {
  const customer = await app.customer()
  const ask = async (content: string) => {
    const response = await app.chat(customer, { model: 'test-model', messages: [{ role: 'user', content }] })
    await response.text()
  }
  await ask('Hello!')
  await ask('Hello again!')
  const { customerId } = customer
  const watched = await openSignedIn(chromium.browser, app, customerId, { width, timezoneId: 'Europe/Berlin' })
  open.push(watched)
  const { page } = watched
  const files: string[] = []
  page.on('request', request => files.push(new URL(request.url()).pathname))
  await page.goto(`/c/${customerId}/activity`)
  await page.getByRole('table', { name: 'Requests' }).getByRole('row').nth(2).waitFor()
  return { page, files, ask }
}

/** Where the cells of each row stand from left to right, and what is written above them. */
const cellsOfRows = (page: Page) =>
  page.evaluate(`[...document.querySelectorAll('table[aria-label=Requests] tbody tr')].map(row =>
    [...row.querySelectorAll('td')].map(cell => ({
      left: cell.getBoundingClientRect().left,
      title: getComputedStyle(cell, '::before').content,
      place: cell.dataset.place,
    })),
  )`) as Promise<{ left: number; title: string; place?: string }[][]>

test('on a phone, the rows of a table have the same columns, and each figure its title', async () => {
  const { page } = await activity(360)
  // One column waits for another answer.
  await expect.poll(async () => (await cellsOfRows(page))[0]).toHaveLength(8)
  const [first, second] = await cellsOfRows(page)
  // The figure stands at the right end, wherever that begins.
  const lefts = (cells: typeof first) => cells!.filter(({ place }) => place === undefined).map(({ left }) => left)
  expect(lefts(first)).toEqual(lefts(second))
  expect(new Set(lefts(first)).size).toBe(3)
  for (const { place, title } of first!) expect(title, place).toMatch(place === 'name' ? /^none$/ : /^"\w+"$/)
})

test('a page names the zone of its times, and its zeros have no slash', async () => {
  const { page, files } = await activity(1280)
  await page.getByText('Times are in the zone Europe/Berlin. UTC appears on hover.').waitFor()
  await expect.poll(() => files.some(path => /plain-zero.*\.woff2$/.test(path))).toBe(true)
})

test('the hatching of a bar that still grows has a legend', async () => {
  const { page, ask } = await activity(1280)
  const legends = async () => {
    await page.getByRole('img', { name: /^Requests by hour/ }).waitFor()
    return await page.getByText('not over yet').count()
  }
  // The hour of the requests may have ended since.
  if ((await legends()) === 0) {
    await ask('Hello in the next hour!')
    await page.reload()
  }
  expect(await legends()).toBe(1)
})

test.each([360, 1280])('the receipt holds long names of servers at %i px', async width => {
  const { page } = await activity(width)
  await page.getByRole('link', { name: 'test-model' }).first().click()
  const receipt = page.getByRole('dialog', { name: 'Receipt' })
  await receipt.getByText('Which servers').waitFor()
  await receipt.getByText('in-the-second-rack').waitFor()
  const tooWide = `[...document.querySelectorAll('[role=dialog] *')]
    .filter(each => each.getBoundingClientRect().right > innerWidth + 1)
    .map(each => each.outerHTML.slice(0, 100))`
  expect(await page.evaluate(tooWide)).toEqual([])
})
