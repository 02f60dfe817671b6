import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { addHosterMember } from '../../../src/market/marketplace/hoster-members.ts'
import { makeOperator, signedInMember } from '../../harness/browser-client.ts'
import { axeFindings, openPage, settled, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'
import { useResource } from '../../harness/use-resource.ts'
import { createHoster } from '../../trust/trust-world.ts'

const app = useDemoApp()
const chromium = useChromium()

const otherScreens = [
  '/account',
  '/h/apply',
  '/status',
  '/operator',
  '/operator/customers',
  '/operator/usage',
  '/operator/usage?by=customer',
  '/operator/money',
  '/operator/models',
  '/operator/prices',
  '/operator/requests',
  '/operator/providers',
  '/operator/hosters',
  '/operator/payouts',
  '/operator/people',
  '/operator/grants',
  '/operator/log',
  '/operator/settings',
  '/operator/system',
]
const screens = [
  ...['', '/usage', '/usage?days=7&show=requests', '/activity', '/activity?success=false', '/keys', '/credits'],
  ...[
    '/models',
    '/playground',
    '/settings/account',
    '/settings/people',
    '/settings/alerts',
    '/settings/security',
    '/nowhere',
  ],
]

const ofHoster = ['', '/offers', '/traffic', '/trust', '/earnings', '/connect', '/settings']

/** A customer with a few requests, of which one failed, and a person that is signed in. */
const signedIn = useResource(
  async () => {
    const customer = await app.customer({ creditNanos: 5_000_000_000n })
    for (const model of ['demo', 'demo', 'demo']) {
      const body = JSON.stringify({ model, max_tokens: 5, messages: [{ role: 'user', content: 'Hello!' }] })
      const headers = { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' }
      const { status } = await fetch(`${app.url}/v1/chat/completions`, { method: 'POST', headers, body })
      if (status !== 200) throw new Error(`the demo answered ${status}`)
    }
    const { browser: client, email } = await signedInMember(app, customer.customerId)
    const { database } = app
    const { hosterId } = await createHoster(database)
    // Usage rows without their sums would fail the audit at the end.
    await database.pool.query(
      "INSERT INTO hoster_attempt_day VALUES ($1, current_date, 'm', 'answered', 5), ($1, current_date, 'm', 'server_error', 1)",
      [hosterId],
    )
    await database.pool.query(
      "INSERT INTO hoster_tokens_day VALUES ($1, current_date, 'm', 5, 510, 500, 500, 98, 100, 98)",
      [hosterId],
    )
    const { rows } = await database.pool.query<{ person_id: string }>('SELECT person_id FROM person WHERE email = $1', [
      email,
    ])
    await addHosterMember(database.pool, { hosterId, personId: rows[0]!.person_id, role: 'owner' })
    const applied = await client.post('hosters', { name: 'garage', transport: 'agent' })
    const { id: newHosterId } = (await applied.json()) as { id: string }
    await makeOperator(app, email)
    const [name, value] = client.cookie!.split('=') as [string, string]
    const url = new URL(app.url)
    const cookie = { name, value, domain: url.hostname, path: '/', httpOnly: true, sameSite: 'Strict' as const }
    return {
      customerId: customer.customerId,
      hosterScreens: [
        ...ofHoster.map(path => `/h/${hosterId}${path}`),
        `/h/${newHosterId}`,
        `/h/${newHosterId}/connect`,
        `/operator/hosters/${newHosterId}`,
      ],
      storageState: { cookies: [{ ...cookie, expires: -1, secure: false }], origins: [] },
    }
  },
  () => {},
  'file',
)

/** Reads the title that a page shows before its scripts run; null without one. */
async function frameTitle(page: Page, path: string): Promise<string | null> {
  const html = await (await page.request.get(path)).text()
  return /<h1[^>]*>([^<]*)</.exec(html)?.[1] ?? null
}

const looks = [
  { width: 1280, colorScheme: 'light' },
  { width: 1280, colorScheme: 'dark' },
  { width: 360, colorScheme: 'dark' },
  { width: 360, colorScheme: 'light' },
] as const

/** Loads every page once, because that takes longer than the four looks: half of them wide, and half of them narrow. */
async function findings({ page }: WatchedPage, paths: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const [index, path] of paths.entries()) {
    const order = index % 2 === 0 ? looks : looks.toReversed()
    await look(page, order[0]!)
    await page.goto(path)
    await settled(page)
    const [title, frame] = [await page.locator('h1').textContent(), await frameTitle(page, path)]
    if (frame !== null && frame !== title && !['Customer', 'Hoster', 'Overview'].includes(frame))
      found.push(`${path}: ${frame} turns into ${title}`)
    found.push(...(await findingsInEveryLook(page, path, order)))
  }
  return found
}

async function findingsInEveryLook(page: Page, what: string, order: readonly Look[] = looks): Promise<string[]> {
  const found: string[] = []
  for (const { width, colorScheme } of order) {
    await look(page, { width, colorScheme })
    const place = `${what}, ${width} px, ${colorScheme}`
    found.push(...(await axeFindings(page)).map(text => `${place}: ${text}`))
    const excess = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
    if (excess !== 0) found.push(`${place}: ${excess} px too wide`)
  }
  return found
}

type Look = (typeof looks)[number]

async function look(page: Page, { width, colorScheme }: Look): Promise<void> {
  await page.setViewportSize({ width, height: 800 })
  await page.emulateMedia({ colorScheme })
  await expect
    .poll(() => page.evaluate('document.documentElement.dataset.mantineColorScheme ?? null'))
    .toBeOneOf([colorScheme, null])
}

test('no screen has errors, findings of axe, or a horizontal scroll bar', async () => {
  const { customerId, hosterScreens, storageState } = signedIn
  const watched = await openPage(chromium.browser, { baseURL: app.url, storageState })
  const { page, context, complaints } = watched
  const ofCustomer = screens.map(path => `/c/${customerId}${path}`)
  const found = await findings(watched, [
    ...ofCustomer,
    ...otherScreens,
    ...hosterScreens,
    `/operator/customers/${customerId}`,
  ])
  await page.goto(`/c/${customerId}/activity`)
  await page.getByRole('link', { name: 'demo' }).first().click()
  await page.getByText('Which servers').waitFor()
  found.push(...(await findingsInEveryLook(page, 'receipt')))
  await context.close()
  expect([...found, ...complaints]).toEqual([])
})

test('nor has the sign-in', async () => {
  const watched = await openPage(chromium.browser, { baseURL: app.url })
  const found = await findings(watched, [
    ...['/', '/welcome#x', '/invite#x', '/sign-up', '/verify#x', '/reset', '/reset#x', '/oidc?state=x'],
    '/confirm-email#x',
  ])
  await watched.context.close()
  expect([...found, ...watched.complaints.filter(text => !/status of 4\d\d/.test(text))]).toEqual([])
})

test('the colour of the page follows the choice of the person', async () => {
  const { customerId, storageState } = signedIn
  const { page, context } = await openPage(chromium.browser, { baseURL: app.url, storageState, colorScheme: 'light' })
  await page.goto(`/c/${customerId}`)
  await page.getByRole('button', { name: /Ada/ }).click()
  await page.getByRole('menuitem', { name: 'Dark' }).click()
  await page.reload()
  await expect.poll(() => page.locator('html').getAttribute('data-mantine-color-scheme')).toBe('dark')
  await context.close()
})
