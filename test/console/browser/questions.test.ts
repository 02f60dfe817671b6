import type { Page } from 'playwright-core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { transaction } from '../../../src/base/db/pool.ts'
import { issueKey } from '../../../src/identity/auth/keys.ts'
import { grantCredit } from '../../../src/money/ledger/accounts/grant-credit.ts'
import { makeOperator } from '../../harness/browser-client.ts'
import { byKeyboard } from '../../harness/by-keyboard.ts'
import type { WatchedPage } from '../../harness/chromium.ts'
import { settled, useChromium } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'

// What people come for, from the first screen, each with at most three clicks, typing apart: with a finger and by the keyboard
// alone on a phone's width, and by the keyboard on a wide screen.

const app = useDemoApp({
  yaml: 'payments:\n  manual:\n    instructions: Send {amount} to the account 12-34 and quote {reference}.\n',
})
const withoutPayments = useDemoApp()
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints).filter(text => !/status of 4\d\d/.test(text))
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

async function chat(key: string, { url } = app): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', max_tokens: 5, messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  await response.text()
  return response.status
}

/** A customer with a request, on the first screen. */
async function home(width: number, { otherKey, on = app }: { otherKey?: string; on?: typeof app } = {}) {
  const { customerId, key } = await on.customer({ key: { name: 'laptop' } })
  if (otherKey !== undefined) await transaction(on.database.pool, sql => issueKey(sql, { customerId, name: otherKey }))
  await chat(key, on)
  const watched = await openSignedIn(chromium.browser, on, customerId, { width })
  open.push(watched)
  const { page, email } = watched
  await page.goto(`/c/${customerId}`)
  await page.getByText('Last requests').waitFor()
  return { page, email, customerId, key }
}

describe.each([
  { how: 'by touch at 360 px', width: 360, click: touch },
  { how: 'by the keyboard at 360 px', width: 360, click: byKeyboard },
  { how: 'by the keyboard at 1280 px', width: 1280, click: byKeyboard },
])('$how', ({ width, click }) => {
  let clicks: number

  beforeEach(() => {
    clicks = 0
  })

  async function step(page: Page, name: RegExp): Promise<void> {
    clicks++
    await click(page, name)
  }

  /** Sends the form of the field that has the focus. */
  async function enter(page: Page): Promise<void> {
    clicks++
    await page.keyboard.press('Enter')
  }

  async function goTo(page: Page, name: RegExp): Promise<void> {
    await step(page, name)
    await page.getByRole('heading', { level: 1, name }).waitFor()
  }

  test('what the last request cost, and why', async () => {
    const { page } = await home(width)
    await step(page, /^demo$/)
    const receipt = page.getByRole('dialog', { name: 'Receipt' })
    await expect.poll(() => receipt.textContent()).toMatch(/0\.000\d+ USD= \d+ input × 0\.1 \+ 5 output × 0\.4/)
    expect(clicks).toBe(1)
  })

  test('which key spent most this week', async () => {
    const { page } = await home(width, { otherKey: 'unused' })
    await goTo(page, /^Keys$/)
    const table = page.getByRole('table', { name: 'Keys' })
    // It comes first, although the other key is newer.
    await expect.poll(() => table.getByRole('row').nth(1).textContent()).toMatch(/laptop.*0\.000\d/)
    expect(await table.getByRole('row').nth(2).textContent()).toContain('unused')
    expect(clicks).toBe(1)
  })

  test('how to cap a key at 5 USD a month', async () => {
    const { page, key } = await home(width)
    await goTo(page, /^Keys$/)
    await page.getByText('laptop').first().waitFor()
    await step(page, /^Set a limit/)
    await page.getByLabel('Limit in USD').and(page.locator(':focus')).waitFor()
    await page.getByText('Counts what was spent since the last reset.').waitFor()
    await page.keyboard.insertText('5')
    await enter(page)
    await page.getByText('The key is changed').waitFor()
    await expect.poll(() => page.getByText(/of 5\.00 USD/).count()).toBe(1)
    const shown = await fetch(`${app.url}/v1/key`, { headers: { authorization: `Bearer ${key}` } })
    expect(await shown.json()).toMatchObject({ limit_usd: 5, limit_reset: 'monthly' })
    expect(clicks).toBe(3)
  })

  test('how to add 25 USD', async () => {
    const { page } = await home(width)
    await step(page, /^Add credit$/)
    const amount = page.getByRole('dialog', { name: 'Add credit' }).getByLabel('USD')
    await amount.and(page.locator(':focus')).waitFor()
    await page.keyboard.press('Control+a')
    await page.keyboard.insertText('25')
    await enter(page)
    await page.getByText(/^Send 25\.00 USD to the account 12-34 and quote SY-/).waitFor()
    expect(clicks).toBe(2)
  })

  test('how an operator adds 25 USD where nothing is sold', async () => {
    const { page, email, customerId } = await home(width, { on: withoutPayments })
    await step(page, /^Add credit$/)
    await page.getByText('this gateway takes no payments online').waitFor()
    await makeOperator(withoutPayments, email)
    await page.goto(`/c/${customerId}/credits`)
    await page.getByText('You are an operator of this gateway').waitFor()
    await step(page, /^Grant credit$/)
    await page.getByLabel('USD').fill('25')
    await page.getByRole('combobox', { name: 'Kind' }).click()
    await page.getByRole('option', { name: /^Paid/ }).click()
    await page.getByLabel('Reason').fill('invoice 7')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.getByRole('dialog').textContent()).toContain('Balance afterwards')
    await page.getByRole('button', { name: 'Grant it' }).press('Enter')
    await page.getByText('25.00 USD are granted').waitFor()
  })

  test('how to stop a leaked key', async () => {
    const { page, key } = await home(width)
    await goTo(page, /^Keys$/)
    await page.getByText('laptop').first().waitFor()
    await step(page, /^A key leaked\?$/)
    await page.getByLabel('The leaked key').and(page.locator(':focus')).waitFor()
    await page.keyboard.insertText(key)
    await page.getByText('This is the key laptop').waitFor()
    await step(page, /^Only pause it$/)
    await page.getByText('It is paused').waitFor()
    await expect.poll(() => chat(key)).toBe(403)
    expect(clicks).toBe(3)
  })

  test('how to end a key for ever', async () => {
    const { page, key } = await home(width)
    await goTo(page, /^Keys$/)
    await page.getByText('laptop').first().waitFor()
    await step(page, /^Actions of laptop$/)
    await page.getByRole('menuitem', { name: 'Delete' }).waitFor()
    if (click === byKeyboard) {
      const isOnDelete = () => page.getByRole('menuitem', { name: 'Delete' }).evaluate('item => item.matches(":focus")')
      for (let pressed = 0; pressed < 4 && !(await isOnDelete()); pressed++) await page.keyboard.press('ArrowDown')
      await page.keyboard.press('Enter')
    } else await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByLabel('Type laptop to confirm').fill('laptop')
    await page.keyboard.press('Enter')
    await page.getByText('stops working within two seconds').waitFor()
    await expect.poll(() => chat(key)).toBe(401)
  })
})

/** Touches the first visible element with this name. */
async function touch(page: Page, name: RegExp): Promise<void> {
  const found = page.getByRole('link', { name }).or(page.getByRole('button', { name })).filter({ visible: true })
  await found.first().click()
}

test('a leaked key is found by pasting it', async () => {
  const { page, key } = await home(1280)
  await page.getByRole('button', { name: 'Find' }).click()
  await page.locator('[role=dialog] :focus').waitFor()
  await page.keyboard.insertText(key)
  await page
    .getByRole('dialog')
    .getByRole('link', { name: /laptop/ })
    .waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.keyboard.press('Control+k')
  await page.locator('[role=dialog] :focus').waitFor()
  await page.keyboard.insertText(key)
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: 'All keys' }).waitFor()
  await expect.poll(() => page.getByRole('table', { name: 'Keys' }).getByRole('row').count()).toBe(2)
  // The key itself is in no address.
  expect(page.url()).not.toContain(key)
})

test('the code of a new customer runs with a key that one click puts into it', async () => {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId, { width: 360 })
  open.push(watched)
  const { page } = watched
  await page.goto(`/c/${customerId}`)
  await page.getByText('Waiting for your first request').waitFor()
  const code = page.getByRole('region', { name: 'the curl example' })
  expect(await code.textContent()).toContain('YOUR_KEY')
  await page.getByRole('button', { name: 'for this code' }).click()
  await expect.poll(() => code.textContent()).toMatch(/Bearer sk-sy-\w+'/)
  await expect.poll(() => page.evaluate('document.documentElement.scrollWidth')).toBe(360)
  const key = /sk-sy-\w+/.exec((await code.textContent())!)![0]
  expect(await chat(key)).toBe(200)
  // The page waited for it.
  await page.getByText('Last requests').waitFor()
  await page.getByText('the pace appears after the first full day').waitFor()
})

test('without an answer of the gateway the page says how old its data is, and goes on by itself', async () => {
  const { page, key } = await home(1280)
  await settled(page)
  const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row')
  expect(await rows.count()).toBe(2)
  const data = /\/console\/api\/(?!.*live)/
  await page.route(data, route => route.abort())
  await chat(key)
  await page.getByText(/The gateway does not answer\. You see the data of \d\d:\d\d:\d\d/).waitFor()
  expect(await rows.count()).toBe(2)
  await page.unroute(data)
  await page.getByText('You see the data of').waitFor({ state: 'hidden' })
  await expect.poll(() => rows.count()).toBe(3)
  // The aborted requests were meant.
  open[0]!.complaints.length = 0
})

test('a step that is not known yet is not shown as done', async () => {
  const { page } = await home(1280)
  const next = page.getByRole('region', { name: 'Next' })
  await next.waitFor()
  const mayArrive = Promise.withResolvers<void>()
  await page.route('**/credits/transactions*', async route => {
    await mayArrive.promise
    await route.continue()
  })
  const others = ['key-names', 'alerts'].map(part => page.waitForResponse(new RegExp(`/customers/[^/]+/${part}`)))
  await page.reload()
  await Promise.all(others)
  await page.getByText('Last requests').waitFor()
  await settled(page)
  expect(await next.count()).toBe(0)
  mayArrive.resolve()
  await expect.poll(() => next.getByText('(done)').count()).toBe(2)
})

test('the next steps leave when they are done', async () => {
  const { page, customerId } = await home(1280)
  const next = page.getByRole('region', { name: 'Next' })
  await expect.poll(() => next.getByText('(done)').count()).toBe(2)
  const status = await page.evaluate(async path => {
    const alert = { kind: 'low_balance', threshold_usd: 1, channel: 'webhook', target: 'https://example.com/hook' }
    const headers = { 'content-type': 'application/json' }
    return (await fetch(path, { method: 'POST', headers, body: JSON.stringify(alert) })).status
  }, `/console/api/customers/${customerId}/alerts`)
  expect(status).toBe(200)
  await expect.poll(() => next.getByText('(done)').count()).toBe(3)
  await transaction(app.database.pool, sql =>
    grantCredit(sql, { customerId, amountNanos: 1_000_000_000n, reason: 'invoice 7', ref: customerId }),
  )
  await next.waitFor({ state: 'detached' })
})
