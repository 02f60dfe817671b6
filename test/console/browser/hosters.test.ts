import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { transaction } from '../../../src/base/db/pool.ts'
import { addHosterMember } from '../../../src/market/marketplace/hoster-members.ts'
import { addTraffic } from '../../../src/market/marketplace/traffic.ts'
import { insertAudit } from '../../../src/market/trust/evidence/audit-store.ts'
import { quarantineHoster } from '../../../src/market/trust/quarantine-hoster.ts'
import { writeTrustDays } from '../../../src/market/trust/write-trust-days.ts'
import type { StoredManifest } from '../../../src/wire/api/hoster-manifest.ts'
import { makeOperator, PASSWORD } from '../../harness/browser-client.ts'
import { axeFindings, openPage, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { hosterKey, hosterRequest } from '../../harness/hosters.ts'
import { status } from '../../harness/scripted-upstream.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { WAIT_OPTIONS } from '../../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

// What the people of hosters and operators do with them, in a real browser, from the application to the appeal.

const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }' })
const upstream = useUpstream('test')
const chromium = useChromium()
const open: WatchedPage[] = []
let names = 0

afterEach(async () => {
  const complaints = open.flatMap(watched => watched.complaints)
  await Promise.all(open.splice(0).map(({ context }) => context.close()))
  // A refused change is a part of these paths.
  expect(complaints.filter(text => !/status of 4\d\d/.test(text))).toEqual([])
})

/** Opens a page of a person, who is a member of the hoster if one is given. */
async function personPage(hosterId: string | null, role: 'owner' | 'viewer' = 'owner'): Promise<Page> {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  if (hosterId !== null) {
    const { rows } = await app.database.pool.query<{ person_id: string }>(
      'SELECT person_id FROM person WHERE email = $1',
      [watched.email],
    )
    await addHosterMember(app.database.pool, { hosterId, personId: rows[0]!.person_id, role })
  }
  return watched.page
}

async function operatorPage(): Promise<Page> {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  await makeOperator(app, watched.email)
  return watched.page
}

const click = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).click()
const see = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor()

test('from the application to the first earned request', async () => {
  const page = await personPage(null)
  const name = `garage-${++names}`
  await page.goto('/')
  await page.getByRole('button', { name: /Ada/ }).click()
  await page.getByRole('menuitem', { name: 'Become a hoster' }).click()
  await see(page, '80 % of each charge')
  await see(page, '14 days after a request, from 25.00 USD on')
  await see(page, /^100 USD for input/)
  await page.getByLabel('Name').fill(name)
  await page
    .getByRole('textbox', { name: /How do requests/ })
    .or(page.getByRole('combobox', { name: /How do requests/ }))
    .click()
  await page.getByRole('option', { name: /https address/ }).click()
  await page.getByLabel('Address').fill(upstream.baseUrl)
  await click(page, 'Apply')
  await page.getByRole('heading', { name }).waitFor()

  await click(page, 'Start the verification')
  const challenge = await page.locator('pre').filter({ hasText: 'challenge' }).textContent()
  upstream.respondToProbesWith(status(200, JSON.parse(challenge!)))

  await page.getByRole('link', { name: 'Enter models and prices' }).first().click()
  await click(page, 'Add a model')
  await page.getByRole('textbox', { name: /^Model/ }).fill('garage-model')
  await page.getByRole('textbox', { name: 'Input', exact: true }).fill('0')
  await page.getByRole('textbox', { name: /^Output/ }).fill('2')
  await see(page, /USD per million tokens, at most/)
  await click(page, 'Save')
  await see(page, /^“Input” .*above zero/)
  await page.getByRole('textbox', { name: 'Input', exact: true }).fill('1')
  await click(page, 'Save')
  await page.getByRole('heading', { name: 'garage-model' }).waitFor()
  await page.getByRole('link', { name: 'Overview' }).click()
  await click(page, 'Check again')
  await see(page, /operator of this gateway approves/)

  const operator = await operatorPage()
  await operator.goto('/operator/hosters')
  await see(operator, 'waits for approval')
  await operator.getByRole('link', { name }).click()
  await click(operator, 'Approve')
  await operator.getByLabel('Reason').fill('Reviewed the server.')
  await operator.getByRole('dialog').getByRole('button', { name: 'Approve' }).click()
  await see(operator, 'Reviewed the server.')

  await see(page, 'It gets requests.')
  await app.app.noticeChanges()
  const customer = await app.customer()
  const body = { model: 'garage-model', messages: [{ role: 'user', content: 'Hello!' }] }
  expect((await app.chat(customer, body)).status).toBe(200)
  await page.reload()
  await see(page, '1 requests')
  await page.getByRole('link', { name: 'Earnings' }).click()
  await page.getByRole('table', { name: 'Statement' }).getByText('garage-model').waitFor()
  await app.settled(customer, 1)
  await transaction(app.database.pool, sql => addTraffic(sql, { fromMs: 0, toMs: Date.now() }))
  await page.getByRole('link', { name: 'Traffic' }).click()
  await page.getByRole('table', { name: 'Requests by model' }).getByText('garage-model').waitFor()
})

test('an operator invites a hoster, whose owner lands on the checklist and invites a colleague', async () => {
  const operator = await operatorPage()
  await operator.goto('/operator/hosters')
  await click(operator, 'Invite a hoster')
  const name = `invited-${++names}`
  const dialog = operator.getByRole('dialog', { name: 'Invite a hoster' })
  await dialog.getByLabel('Name of the hoster').fill(name)
  await dialog.getByLabel('E-mail address').fill(`${name}@example.com`)
  await dialog.getByRole('button', { name: 'Invite' }).click()
  const link = await operator.getByRole('dialog', { name: 'Invited' }).locator('pre').textContent()

  const watched = await openPage(chromium.browser, { baseURL: app.url })
  open.push(watched)
  const { page } = watched
  await page.goto(link!)
  await see(page, `the hoster ${name}`)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await click(page, 'Join')
  await page.getByRole('heading', { name: 'To the first request' }).waitFor()
  await page.getByRole('link', { name: 'Settings' }).first().click()
  await click(page, 'Invite a person')
  const own = page.getByRole('dialog', { name: 'Invite a person' })
  await own.getByLabel('E-mail address').fill(`colleague-${name}@example.com`)
  await own.getByRole('button', { name: 'Invite' }).click()
  await page.getByRole('dialog', { name: 'Invited' }).locator('pre').waitFor()
  await click(page, 'Done')
  await page.getByRole('table', { name: 'Invitations' }).getByText(`colleague-${name}@example.com`).waitFor()
})

test('a key is shown once and revoked', async () => {
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl })
  const page = await personPage(hosterId)
  await page.goto(`/h/${hosterId}/connect`)
  await click(page, 'Make a key')
  await page.getByLabel('Name').fill('gpu-1')
  await page.getByRole('checkbox', { name: 'read' }).check()
  await click(page, 'Make the key')
  const key = (await page.getByRole('dialog').locator('pre').textContent())!
  expect(key).toMatch(/^hk-sy-/)
  await page.getByLabel('I have stored the key').check()
  await click(page, 'Close')
  expect((await hosterRequest(app, key, 'hoster/status')).status).toBe(200)
  await click(page, 'Revoke gpu-1')
  await page.getByLabel('Type gpu-1 to confirm').fill('gpu-1')
  await click(page, 'Revoke the key')
  await see(page, /There is no key yet/)
  await app.app.noticeChanges()
  expect((await hosterRequest(app, key, 'hoster/status')).status).toBe(401)
})

test('a price that doubles waits for the notice, and a second change is refused in the words of the rules', async () => {
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl })
  const page = await personPage(hosterId)
  await page.goto(`/h/${hosterId}/offers`)
  await click(page, 'Change test-model')
  await page.getByRole('textbox', { name: /^Output/ }).fill('4')
  await click(page, 'Save')
  await see(page, /rises after the notice of 24 hours/)
  await see(page, '1 / 4')
  await click(page, 'Change test-model')
  await page.getByRole('textbox', { name: /^Output/ }).fill('1.5')
  await click(page, 'Save')
  await page
    .getByRole('alert')
    .filter({ hasText: /minutes/ })
    .waitFor()
})

test('a manifest that was opened before a change of another program does not undo it', async () => {
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl })
  const page = await personPage(hosterId)
  await page.goto(`/h/${hosterId}/offers`)
  await click(page, 'Edit as JSON')
  const text = await page.getByRole('textbox', { name: 'Manifest' }).inputValue()
  const { key } = await hosterKey(app, hosterId, ['manage', 'read'])
  const sent = await hosterRequest(app, key, 'hoster/manifest', {
    method: 'PUT',
    body: { ...JSON.parse(text), region: 'DE' },
  })
  expect(sent.status).toBe(200)
  // The page below reads the new version when it gets the focus.
  await expect
    .poll(async () => {
      await page.evaluate("dispatchEvent(new Event('visibilitychange'))")
      return page.locator('dd').filter({ hasText: /^DE$/ }).count()
    }, WAIT_OPTIONS)
    .toBe(1)
  await click(page, 'Save')
  await page.getByRole('dialog').getByRole('alert').waitFor()
  const stored = (await (await hosterRequest(app, key, 'hoster/manifest')).json()) as StoredManifest
  expect(stored.manifest.region).toBe('DE')
})

test('every term of a model is entered in the form, and the gateway refuses in its words', async () => {
  const models = [{ modelId: 'test-model', features: ['chat'] as const }]
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl, models })
  upstream.always(status(500, {}))
  const page = await personPage(hosterId)
  await page.goto(`/h/${hosterId}/offers`)
  await click(page, 'Region and data policy')
  const terms = page.getByRole('dialog', { name: 'Region and data policy' })
  await terms.getByLabel('Region').fill('d')
  await terms.getByRole('button', { name: 'Save' }).click()
  await terms.getByText(/two capital letters of a country/).waitFor()
  await terms.getByLabel('Region').fill('de')
  await terms.getByRole('combobox', { name: 'Prompts and answers are kept' }).click()
  await page.getByRole('option', { name: 'For some days' }).click()
  await terms.getByLabel('Days').fill('7')
  await terms.getByRole('button', { name: 'Save' }).click()
  await see(page, 'not used for training, kept for 7 days')

  await click(page, 'Add a model')
  const model = page.getByRole('dialog', { name: 'Add a model' })
  await model.getByRole('textbox', { name: /^Model/ }).fill('wide-model')
  await model.getByRole('textbox', { name: /^Input$/ }).fill('1')
  await model.getByRole('textbox', { name: /^Output$/ }).fill('2')
  await model.getByText('More: cached input, features, quantization').click()
  await page.setViewportSize({ width: 360, height: 800 })
  expect(await axeFindings(page)).toEqual([])
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
  await page.setViewportSize({ width: 1280, height: 900 })
  await model.getByRole('textbox', { name: /^Input read from a cache/ }).fill('1.5')
  await model.getByRole('textbox', { name: /^Input written to a cache/ }).fill('0.9')
  await model.getByRole('textbox', { name: /^Context/ }).fill('128,000')
  await model.getByRole('checkbox', { name: 'Tools' }).check()
  await model.getByRole('checkbox', { name: 'Images in prompts' }).check()
  await model.getByRole('combobox', { name: /^Quantization/ }).click()
  await page.getByRole('option', { name: 'fp8' }).click()
  await model.getByRole('textbox', { name: /^Name/ }).fill('Wide model')
  await model.getByRole('button', { name: 'Save' }).click()
  await model.getByText(/cached tokens only lower a bill/).waitFor()
  await model.getByRole('textbox', { name: /^Input read from a cache/ }).fill('0.1')
  await model.getByRole('button', { name: 'Save' }).click()
  await see(page, /It is offered when it has passed its probes/)
  const { key } = await hosterKey(app, hosterId, ['read'])
  const stored = (await (await hosterRequest(app, key, 'hoster/manifest')).json()) as StoredManifest
  expect(stored.manifest).toMatchObject({
    region: 'DE',
    data_policy: { trains_on_data: false, retention_days: 7 },
    models: [
      { id: 'test-model' },
      {
        id: 'wide-model',
        name: 'Wide model',
        context_length: 128_000,
        quantization: 'fp8',
        supported_features: ['tools', 'images'],
        pricing: { prompt: '0.000001', input_cache_read: '0.0000001', input_cache_write: '0.0000009' },
      },
    ],
  })
  await page.getByRole('link', { name: 'Overview' }).click()
  const waiting = page.getByRole('table', { name: 'Models that wait' })
  await expect.poll(() => waiting.textContent()).toMatch(/wide-model.*(failed|waits for) its probes/)
})

test('a hoster sees its audits late and without a time, the operator at once', async () => {
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: `late-${++names}` }] })
  const page = await personPage(hosterId)
  const result = { kind: 'canary', hasPassed: true, eValues: [1], statistic: 0, sample: 1 } as const
  const clock = { epochMs: () => Date.now(), monotonicMs: () => performance.now() }
  await insertAudit(app.database.pool, { ...result, hosterId, modelId: 'm', atMs: clock.epochMs() })
  await writeTrustDays({ pool: app.database.pool, clock })
  await page.goto(`/h/${hosterId}/trust`)
  await see(page, 'Audits are shown from the second day on.')
  expect(await axeFindings(page)).toEqual([])

  const operator = await operatorPage()
  await operator.goto(`/operator/hosters/${hosterId}`)
  const seen = operator.getByRole('row').filter({ hasText: 'known answer' })
  expect(await seen.locator('time').getAttribute('datetime')).toMatch(/T\d\d:\d\d/)
  expect(await axeFindings(operator)).toEqual([])

  // As if the day had ended long ago.
  const { rows } = await app.database.pool.query<{ day: string }>(
    `UPDATE hoster_trust_day SET day = day - 2 WHERE hoster_id = $1 RETURNING to_char(day, 'YYYY-MM-DD') AS day`,
    [hosterId],
  )
  await page.reload()
  await see(page, `as they were at the end of ${rows[0]!.day} (UTC)`)
  const audits = page.getByRole('table', { name: 'Last audits' })
  expect(await audits.getByRole('row').last().textContent()).toMatch(/^\d{4}-\d\d-\d\dknown/)
  expect(await audits.locator('time').count()).toBe(0)
  expect(await axeFindings(page)).toEqual([])
})

test('a quarantined hoster appeals, and the operator ends the quarantine, then suspends it', async () => {
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl })
  const proof = { canary: { p: 1e-9 } } as unknown as Parameters<typeof quarantineHoster>[3]
  await transaction(app.database.pool, sql => quarantineHoster(sql, hosterId, ['canary'], proof))
  const page = await personPage(hosterId)
  await page.goto(`/h/${hosterId}`)
  await page.getByRole('link', { name: 'See why, and appeal' }).click()
  await see(page, /Audits prove a cheat/)
  await page.getByLabel('Appeal').fill('Our cache served old weights.')
  await click(page, 'Send the appeal')
  await see(page, 'waits')

  const operator = await operatorPage()
  await operator.goto(`/operator/hosters/${hosterId}`)
  await see(operator, 'Our cache served old weights.')
  await click(operator, 'End the quarantine')
  await operator.getByLabel('Reason').fill('Fixed and checked.')
  await click(operator, 'End it')
  await operator.getByRole('button', { name: 'Suspend' }).click()
  await operator.getByLabel('Reason').fill('A complaint is looked into.')
  await operator.getByRole('dialog').getByRole('button', { name: 'Suspend' }).click()
  await operator.getByRole('table', { name: 'History' }).getByText('A complaint is looked into.').waitFor()
  await page.goto(`/h/${hosterId}`)
  await see(page, /A complaint is looked into\./)
})

test('a viewer sees no keys and earnings, and a stranger sees nothing', async () => {
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl })
  const viewer = await personPage(hosterId, 'viewer')
  await viewer.goto(`/h/${hosterId}/connect`)
  await see(viewer, /Only owners and developers see keys/)
  expect(await viewer.getByRole('link', { name: 'Earnings' }).count()).toBe(0)
  const stranger = await personPage(null)
  await stranger.goto(`/h/${hosterId}`)
  await stranger.getByRole('heading', { name: 'Page not found' }).waitFor()
  for (const path of ['', '/status', '/offers', '/traffic']) {
    const found = await stranger.evaluate(
      address => fetch(address).then(response => response.status),
      `/console/api/hosters/${hosterId}${path}`,
    )
    expect(found).toBe(404)
  }
  const other = await app.hoster({ baseUrl: 'http://127.0.0.1:1/v1' })
  const { key } = await hosterKey(app, other, ['read'])
  const own = (await (await hosterRequest(app, key, 'hoster/offers')).json()) as {
    data: { market: { others: object[] } }[]
  }
  expect(own.data[0]!.market.others).not.toEqual([])
})
