import { afterEach, expect, test } from 'vitest'
import { usageSeries } from '../../../console/src/features/usage/usage-series.ts'
import { transaction } from '../../../src/base/db/pool.ts'
import { grantCredit } from '../../../src/money/ledger/accounts/grant-credit.ts'
import type { WatchedPage } from '../../harness/chromium.ts'
import { settled, useChromium } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'

// Activity and Usage: what a person filters, opens and waits for.

const app = useDemoApp()
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints).filter(text => !/status of 4\d\d/.test(text))
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

async function signedIn(customerId: string) {
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  return watched.page
}

async function chat(key: string, model = 'demo'): Promise<number> {
  const response = await fetch(`${app.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, max_tokens: 5, messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  await response.text()
  return response.status
}

test('new requests wait until they are asked for', async () => {
  const { customerId, key } = await app.customer()
  await chat(key)
  const page = await signedIn(customerId)
  await page.goto(`/c/${customerId}/activity`)
  const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row')
  await expect.poll(() => rows.count()).toBe(2)
  await chat(key)
  await chat(key)
  await page.getByRole('button', { name: '2 new' }).waitFor()
  expect(await rows.count()).toBe(2)
  await page.getByRole('button', { name: '2 new' }).click()
  expect(await rows.count()).toBe(4)
  expect(await page.getByRole('button', { name: /new/ }).count()).toBe(0)
})

test('a filter by outcome is in the address, and a search that stopped says how far it looked', async () => {
  const { customerId, key } = await app.customer()
  await chat(key)
  const page = await signedIn(customerId)
  await page.goto(`/c/${customerId}/activity`)
  await page.getByText('Requests of the last 24 hours').waitFor()
  await page.getByLabel('Outcome').first().click()
  await page.getByRole('option', { name: 'Only: interrupted' }).click()
  await page.getByText('No request matches these filters').waitFor()
  expect(new URL(page.url()).searchParams.get('outcome')).toBe('interrupted')
  // There are no sums by outcome.
  expect(await page.getByText('Requests of the last 24 hours').count()).toBe(0)
  // A page that searched 10,000 requests and found none is too much for a test: the gateway's answer stands in.
  await page.route('**/usage/requests?*outcome=client_gone*', route =>
    route.fulfill({
      json: {
        ...{ object: 'list', data: [], has_more: true, next_cursor: 'x', archived_before: null },
        looked_back_to: '2026-01-05T09:14:00.000Z',
      },
    }),
  )
  await page.goto(`/c/${customerId}/activity?outcome=client_gone`)
  await page.getByText(/0 requests found\. Looked back to 5 Jan/).waitFor()
  await page.getByRole('button', { name: 'Go on' }).waitFor()
})

test('a bar of usage opens its requests, by the keyboard, and so does an hour of activity', async () => {
  const { customerId, key } = await app.customer()
  await chat(key)
  const page = await signedIn(customerId)
  await page.goto(`/c/${customerId}/usage?days=7`)
  const chart = page.getByRole('img', { name: /USD per day/ })
  await chart.focus()
  await page.keyboard.press('End')
  // Once in the legend, and once in the line that reads the bar.
  await page.getByText('not over yet').nth(1).waitFor()
  await page.getByText('local', { exact: false }).first().waitFor()
  await page.keyboard.press('Enter')
  const today = new Date().toISOString().slice(0, 10)
  await page.waitForURL(
    url => url.pathname.endsWith('/activity') && url.searchParams.get('from') === `${today}T00:00:00.000Z`,
  )
  const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row')
  await expect.poll(() => rows.count()).toBe(2)
  await page.getByRole('img', { name: /Requests by hour/ }).focus()
  await page.keyboard.press('End')
  await page.keyboard.press('Enter')
  await page.waitForURL(url => /T\d\d:00:00/.test(url.searchParams.get('to') ?? ''))
  await expect.poll(() => rows.count()).toBe(2)
})

test('usage is split by model and key, as a chart and a table', async () => {
  const { customerId, key } = await app.customer({ key: { name: 'laptop' } })
  await chat(key)
  const page = await signedIn(customerId)
  await page.goto(`/c/${customerId}/usage?days=7&split=key`)
  await page.getByRole('img', { name: /USD per day/ }).focus()
  await page.keyboard.press('End')
  await expect.poll(() => page.locator('p[aria-live]').first().textContent()).toMatch(/0\.000\d+/)
  await page.getByRole('link', { name: 'laptop' }).waitFor()
  await page.getByRole('button', { name: 'Show as a table' }).click()
  await page.getByRole('table', { name: 'USD per day' }).waitFor()
})

test('above seven series, the rest is summed as Other, and no cent is lost', () => {
  const point = (cost: number) => [
    { period: 'p', requests: 1, cost_usd: cost, input_tokens: null, output_tokens: null },
  ]
  const data = Array.from({ length: 9 }, (_, at) => ({ id: `m${at}`, name: null, timeseries: point(0.1) }))
  const series = usageSeries({ by: 'model', data, other: { count: 2, timeseries: point(0.2) } })
  expect(series.map(({ name }) => name)).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'Other'])
  expect(series.at(-1)!.points).toEqual([
    { period: 'p', requests: 3, cost_usd: 0.4, input_tokens: 0, output_tokens: 0 },
  ])
  expect(usageSeries({ by: 'model', data: data.slice(0, 7), other: null })).toHaveLength(7)
})

test('a customer with many keys sees a hundred at first, and finds each by its name', async () => {
  const { customerId } = await app.customer()
  await app.database.pool.query(
    `INSERT INTO api_key (key_id, customer_id, name, key_hash, hint, created_at)
     SELECT gen_random_uuid(), $1::uuid, 'bot ' || n, sha256(($1::text || n)::bytea), 'sk-sy-' || n, now() - n * interval '1 hour' FROM generate_series(1, 130) n`,
    [customerId],
  )
  const page = await signedIn(customerId)
  await page.goto(`/c/${customerId}/keys`)
  const rows = page.getByRole('table', { name: 'Keys' }).getByRole('row')
  await expect.poll(() => rows.count()).toBe(101)
  await page.getByText('31 are not shown').waitFor()
  await page.getByLabel('Find a key').fill('bot 130')
  await expect.poll(() => rows.count()).toBe(2)
  await page.getByLabel('Find a key').fill('nothing')
  await page.getByText('No key matches').waitFor()
  await page.getByLabel('Find a key').fill('')
  await page.getByRole('button', { name: 'Show 31 more' }).click()
  await expect.poll(() => rows.count()).toBe(132)
  await page.goto(`/c/${customerId}/activity`)
  await page.getByRole('combobox', { name: 'Key' }).fill('bot 129')
  await page.getByRole('option', { name: 'bot 129' }).click()
  await expect.poll(() => new URL(page.url()).searchParams.has('key')).toBe(true)
})

test('what changes before the page listens appears too', async () => {
  const { customerId } = await app.customer({ creditNanos: 0n })
  const page = await signedIn(customerId)
  const granted = Promise.withResolvers<void>()
  await page.route('**/live', async route => {
    await granted.promise
    await route.continue()
  })
  await page.goto(`/c/${customerId}/credits`)
  const balance = page.getByRole('banner')
  await expect.poll(() => balance.textContent()).toContain('0.00 USD')
  await transaction(app.database.pool, sql =>
    grantCredit(sql, { customerId, amountNanos: 1_000_000_000n, reason: 'invoice 7', ref: customerId }),
  )
  granted.resolve()
  await expect.poll(() => balance.textContent()).toContain('1.00 USD')
  await page.getByRole('table', { name: 'Statement' }).getByText('invoice 7').waitFor()
})

test('a page whose stream is refused while the gateway restarts is live again by itself', async () => {
  const { customerId } = await app.customer({ creditNanos: 0n })
  const page = await signedIn(customerId)
  const refused = Promise.withResolvers<void>()
  await page.route(
    '**/live',
    async route => {
      await route.fulfill({ status: 502, contentType: 'text/html', body: 'Bad gateway' })
      refused.resolve()
    },
    { times: 1 },
  )
  await page.goto(`/c/${customerId}/credits`)
  const balance = page.getByRole('banner')
  await expect.poll(() => balance.textContent()).toContain('0.00 USD')
  await refused.promise
  await settled(page)
  await transaction(app.database.pool, sql =>
    grantCredit(sql, { customerId, amountNanos: 1_000_000_000n, reason: 'invoice 9', ref: customerId }),
  )
  await page.getByRole('table', { name: 'Statement' }).getByText('invoice 9').waitFor()
  await expect.poll(() => balance.textContent()).toContain('1.00 USD')
  // The refusal was meant.
  open[0]!.complaints.length = 0
})

test('what is read before a change and arrives after it is read again', async () => {
  const { customerId } = await app.customer({ creditNanos: 0n })
  const page = await signedIn(customerId)
  const [wasRead, mayListen, mayArrive] = Array.from({ length: 3 }, () => Promise.withResolvers<void>())
  await page.route(
    '**/credits/transactions*',
    async route => {
      const response = await route.fetch()
      wasRead!.resolve()
      await mayArrive!.promise
      // The page may no longer wait for this answer.
      await route.fulfill({ response }).catch(() => {})
    },
    { times: 1 },
  )
  await page.route('**/live', async route => {
    await mayListen!.promise
    await route.continue()
  })
  await page.goto(`/c/${customerId}/credits`)
  const balance = page.getByRole('banner')
  await expect.poll(() => balance.textContent()).toContain('0.00 USD')
  await wasRead!.promise
  await transaction(app.database.pool, sql =>
    grantCredit(sql, { customerId, amountNanos: 1_000_000_000n, reason: 'invoice 8', ref: customerId }),
  )
  mayListen!.resolve()
  await expect.poll(() => balance.textContent()).toContain('1.00 USD')
  mayArrive!.resolve()
  await page.getByRole('table', { name: 'Statement' }).getByText('invoice 8').waitFor()
})
