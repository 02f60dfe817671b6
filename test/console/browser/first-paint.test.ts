import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { screens } from '../../../console/src/prerender/screens.ts'
import { signedInMember } from '../../harness/browser-client.ts'
import { openPage, settled, useChromium } from '../../harness/chromium.ts'
import { useTestApp } from '../../harness/use-test-app.ts'

const app = useTestApp()
const chromium = useChromium()

test('a screen shows its navigation and title before its scripts run, and then only its data changes', async () => {
  const { customerId } = await app.customer({ creditNanos: 1_000_000_000n })
  const { browser } = await signedInMember(app, customerId)
  const { page, context, complaints } = await openPage(chromium.browser, { baseURL: app.url })
  const [name, value] = browser.cookie!.split('=') as [string, string]
  await context.addCookies([{ name, value, url: app.url }])
  const held = Promise.withResolvers<void>()
  await page.route(/\/assets\/index-[^/]*\.js$/, async route => {
    await held.promise
    await route.continue()
  })
  await page.goto(`/c/${customerId}/keys`, { waitUntil: 'commit' })
  const title = page.locator('h1')
  await expect.poll(() => title.textContent()).toBe('Keys')
  expect(await page.title()).toBe('Keys – Switchyard')
  const frame = page.locator('#root > [inert]')
  const texts = ['Home', 'Activity', 'Usage', 'Keys', 'Credits', 'Models', 'Playground', 'Settings']
  expect(await frame.locator('nav').first().locator('a').allTextContents()).toEqual(texts)
  const before = [await title.boundingBox(), await page.locator('nav').first().boundingBox()]
  held.resolve()
  await settled(page)
  expect(await frame.count()).toBe(0)
  expect([await title.boundingBox(), await page.locator('nav').first().boundingBox()]).toEqual(before)
  await context.close()
  expect(complaints).toEqual([])
})

test('people without a session get no frame, which the sign-in would replace', async () => {
  const page = await (await fetch(`${app.url}/c/x/keys`)).text()
  expect(page).toContain('<div id="root"></div>')
  // The scripts of the screen load with the page anyway.
  expect(page).toMatch(/<link rel="modulepreload" crossorigin href="\/assets\/Keys-[\w-]{8}\.js">/)
})

test('the build prepares each screen of the router', () => {
  const router = readFileSync(new URL('../../../console/src/router.tsx', import.meta.url), 'utf8')
  const imported = [...router.matchAll(/import\('\.\/([^']+)'\)/g)].map(([, module]) => module!)
  const prepared = screens.flatMap(({ modules }) => modules)
  expect([...new Set(prepared)].sort()).toEqual([...new Set(imported)].sort())
})
