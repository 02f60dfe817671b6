import type { Locator, Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { transaction } from '../../../src/base/db/pool.ts'
import { sumPlatformDays } from '../../../src/operator/platform-days.ts'
import { operatorToken, PASSWORD } from '../../harness/browser-client.ts'
import { openPage, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { answer, status } from '../../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

// An operator on an empty gateway, with nothing but the link of the first start: no file and no terminal. On the way to a sold
// answer, the clicks of each weekly task are counted. docs/console-clicks.md has them: `npx vitest run -u` writes it again.

const app = useTestApp({ offers: [] })
const upstream = useUpstream()
const chromium = useChromium()
const open: WatchedPage[] = []
const CLICKS_MAX = 6

afterEach(async () => {
  const complaints = open.flatMap(watched => watched.complaints)
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints.filter(text => !/status of 4\d\d/.test(text))).toEqual([])
})

const counts: [task: string, clicks: number][] = []
let clicks = 0

async function click(target: Locator): Promise<void> {
  clicks++
  await target.click()
}

/** Counts the clicks of a task that begins on the operator's home. What is typed is not counted. */
async function task(page: Page, name: string, work: () => Promise<void>): Promise<void> {
  await page.goto('/operator')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  clicks = 0
  await work()
  counts.push([name, clicks])
}

test('from an empty gateway to a sold answer: no task takes more than six clicks', async () => {
  const { token } = await operatorToken(app, 'you@example.com')
  const watched = await openPage(chromium.browser, { baseURL: app.url })
  open.push(watched)
  const { page } = watched
  const button = (name: string | RegExp) => page.getByRole('button', { name })
  const dialog = page.getByRole('dialog')
  const save = (name: string | RegExp) => dialog.getByRole('button', { name })
  const goTo = (name: string) => click(page.getByRole('navigation').getByRole('link', { name, exact: true }).first())
  const fill = (label: string | RegExp, text: string) => dialog.getByLabel(label).fill(text)
  const done = (text: string | RegExp) => page.getByText(text).first().waitFor()

  await page.goto(`/welcome#${token}`)
  await page.getByLabel('Password').first().fill(PASSWORD)
  await button('Continue').click()
  await page.getByRole('link', { name: 'Not now' }).click()
  // An operator starts on the operator's home.
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()

  upstream.respondToProbesWith(status(200, { object: 'list', data: [{ id: 'test-model', context_length: 8_000 }] }))
  upstream.always(answer())
  await task(page, 'Add a provider, with a model and its price', async () => {
    await goTo('Providers')
    await click(button('Add a provider'))
    await click(
      dialog.getByRole('combobox', { name: 'Provider' }).or(dialog.getByRole('textbox', { name: 'Provider' })),
    )
    await click(page.getByRole('option', { name: 'Other, OpenAI-compatible' }))
    await dialog.getByRole('textbox', { name: 'Name' }).fill('acme')
    await dialog.getByRole('textbox', { name: 'Address' }).fill(upstream.baseUrl)
    await dialog.getByLabel('Key', { exact: true }).fill('sk-secret')
    await page.keyboard.press('Enter')
    await click(dialog.getByRole('checkbox', { name: 'test-model' }))
    await fill('Input price of test-model', '1')
    await fill('Output price of test-model', '2')
    await click(save('Sell 1 model'))
    await done('acme is live.')
  })
  await task(page, 'Test a model', async () => {
    await goTo('Providers')
    await click(button('Models and prices'))
    await click(dialog.getByRole('button', { name: 'Test test-model' }))
    await dialog.getByText(/^answers/).waitFor()
  })
  await task(page, 'Set a price', async () => {
    await goTo('Providers')
    await click(button('Models and prices'))
    await fill('Output price of test-model', '3')
    await fill('Reason', 'dearer')
    await click(save('Save'))
    await done('Version 2 of acme is live.')
  })
  await task(page, 'Switch a model off and on again', async () => {
    await goTo('Providers')
    await click(button('Disable test-model at acme'))
    await fill('Reason', 'it fails')
    await click(save('Disable'))
    await click(button('Enable test-model at acme'))
    await fill('Reason', 'it works')
    await click(save('Enable'))
    await done('acme serves test-model.')
  })
  await task(page, 'Give a provider another weight', async () => {
    await goTo('Providers')
    await click(button('Budget and weight'))
    await fill('Weight', '200')
    await fill('Reason', 'it is faster')
    await click(save('Save'))
    await done(/Version \d of acme is live\./)
  })
  await task(page, 'Change a setting', async () => {
    await goTo('Settings')
    await click(button('Change signup.credit_usd'))
    await fill('signup.credit_usd', '7')
    await fill('Reason', 'a campaign')
    await click(save('Save'))
    await done('Version 1 of the settings is live.')
  })
  await task(page, 'Add a customer', async () => {
    await goTo('Customers')
    await click(button('Add a customer').first())
    await fill('E-mail address for bills', 'ada@example.com')
    await click(save('Add'))
    await page.getByRole('heading', { level: 1, name: 'ada@example.com' }).waitFor()
  })
  await task(page, 'Change the limits of a customer', async () => {
    await goTo('Customers')
    await click(page.getByRole('link', { name: 'ada@example.com' }))
    await click(button('Change tier and limits'))
    await fill('Requests per minute', '77')
    await click(save('Save'))
    await done('77 (its own)')
  })
  let key = ''
  await task(page, 'Make a key for a customer', async () => {
    await goTo('Customers')
    await click(page.getByRole('link', { name: 'ada@example.com' }))
    await click(button('Make a key'))
    await fill('Name', 'laptop')
    await click(save('Make the key'))
    key = (await dialog.getByText(/^sk-sy-/).textContent())!.trim()
  })

  await app.app.noticeChanges()
  const ask = (model: string) =>
    fetch(`${app.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, max_tokens: 10, messages: [{ role: 'user', content: 'Hello' }] }),
    })
  const sold = await ask('test-model')
  expect(sold.status).toBe(200)
  expect(await sold.json()).toMatchObject({ choices: [{ message: { role: 'assistant' } }] })
  upstream.always(status(500, 'out of memory on card 3'))
  expect((await ask('test-model')).status).toBe(500)

  await task(page, 'Find a request of any customer, and what it cost', async () => {
    await goTo('Requests')
    await page.getByLabel('Model').fill('test-model')
    await page.keyboard.press('Enter')
    const answered = page.getByRole('table', { name: 'Requests' }).getByRole('row').filter({ hasText: 'answered' })
    await click(answered.getByRole('link').first())
    // Ten tokens in and five out, at the second version of the prices.
    await done(/^1(\.00)? in, 3(\.00)? out, in USD per million tokens/)
    await done('10 in, 5 out')
  })
  await task(page, 'Invite a second operator', async () => {
    await goTo('People')
    await click(button('Invite a person'))
    await fill('E-mail address', 'bob@example.com')
    await click(save('Invite'))
    await dialog.getByText(/\/invite#/).waitFor()
  })

  // The books: what was sold, and what it left.
  await transaction(app.database.pool, sql => sumPlatformDays(sql, Date.now()))
  await page.goto('/operator')
  const month = page.getByRole('region', { name: 'Last 30 days' })
  await month.getByText('50.0 %', { exact: true }).waitFor()
  await month.getByRole('button', { name: 'Show as a table' }).click()
  // Its server is a cloud without a cost, so there is no margin.
  const today = month.getByRole('table', { name: 'Sales by day' }).getByRole('row').nth(1)
  await expect.poll(() => today.textContent()).toMatch(/250\.0 %.*0\.000025–$/)

  for (const [name, needed] of counts) expect(needed, name).toBeLessThanOrEqual(CLICKS_MAX)
  await expect(pageOf(counts)).toMatchFileSnapshot('../../../docs/console-clicks.md')
})

function pageOf(rows: readonly (readonly [string, number])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length))
  return `# Clicks of weekly tasks

What operators do every week takes at most ${CLICKS_MAX} clicks from the operator's home. What is typed is not counted.
[A test](../test/console/browser/weekly-tasks.test.ts) does each task in a real browser, on a gateway that began empty, and writes this table.

| ${'task'.padEnd(width)} | clicks |
| ${'-'.repeat(width)} | ------ |
${rows.map(([name, needed]) => `| ${name.padEnd(width)} | ${String(needed).padEnd(6)} |`).join('\n')}
`
}
