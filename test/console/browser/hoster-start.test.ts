import { afterEach, expect, test } from 'vitest'
import { useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp } from '../../harness/use-test-app.ts'

// What a hoster reads who has just applied, with an agent.

const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }' })
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(watched => watched.complaints)
  await Promise.all(open.splice(0).map(({ context }) => context.close()))
  expect(complaints).toEqual([])
})

async function newHoster() {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  const { page } = watched
  await page.goto('/h/apply')
  await page.getByLabel('Name').fill('attic')
  await page.getByRole('button', { name: 'Apply' }).click()
  await page.getByRole('heading', { name: 'attic' }).waitFor()
  return page
}

test('no step is done before the agent ran, keys stand above the commands, and nothing is measured', async () => {
  const page = await newHoster()
  const way = page.getByRole('listitem').filter({ hasText: 'A way to your server' })
  await way.getByText('Your agent has not connected yet.').waitFor()
  await way.getByText(': open').waitFor({ state: 'attached' })

  await page.getByRole('link', { name: 'Connect' }).click()
  const make = await page.getByRole('button', { name: 'Make a key' }).boundingBox()
  const install = await page.getByText('npm install --global --ignore-scripts ./switchyard-*.tgz').boundingBox()
  const serve = await page.getByText('--key-file host.key --upstream').last().boundingBox()
  expect([make!.y, install!.y, serve!.y]).toEqual([make!.y, install!.y, serve!.y].toSorted((a, b) => a - b))

  await page.getByRole('link', { name: 'Trust' }).click()
  await page.getByText('not yet measured').first().waitFor()
  expect(await page.getByRole('main').locator('b').filter({ hasText: '0.00' }).count()).toBe(0)
  expect(await page.getByText('Smallest p').count()).toBe(0)
  const conditions = page.getByRole('table', { name: 'Conditions' })
  await conditions.getByRole('row', { name: /^Highest score possible.* not yet 0.70 0.90$/ }).waitFor()
  await page.getByText('Verify a domain and a payout account: the cap rises from 0.7 to 0.9.').waitFor()
})
