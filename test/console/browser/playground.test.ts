import { afterEach, expect, test } from 'vitest'
import type { WatchedPage } from '../../harness/chromium.ts'
import { useChromium } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'

// The model is slow enough to stop it.
const app = useDemoApp({ tokensPerSecond: 20 })
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints).filter(text => !/status of 4\d\d/.test(text))
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

async function playground(search = '') {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  const { page } = watched
  const posts: string[] = []
  page.on('request', request => {
    if (request.method() === 'POST') posts.push(new URL(request.url()).pathname)
  })
  await page.goto(`/c/${customerId}/playground${search}`)
  await page.getByLabel('Prompt', { exact: true }).waitFor()
  return { page, customerId, posts }
}

const keys = async (customerId: string) =>
  (await app.database.pool.query('SELECT key_id FROM api_key WHERE customer_id = $1 AND is_playground', [customerId]))
    .rows

test('a quote appears while typing, and holds for the answer', async () => {
  const { page, customerId } = await playground()
  await page.getByLabel('Prompt', { exact: true }).fill('Hello!')
  const quote = page.getByText(/^Quote: demo, at most 0\.\d+ USD, likely 0\.\d+ USD$/)
  await quote.waitFor()
  const before = await quote.textContent()
  await page.getByLabel('Most it may cost, USD').fill('0.0000100')
  await expect
    .poll(() => page.getByText(/^Quote/).textContent())
    .toMatch(/at most 0\.00000\d+ USD, the answer shortened/)
  expect(await page.getByText(/^Quote/).textContent()).not.toBe(before)
  // One key of the console's kind, however many quotes.
  expect(await keys(customerId)).toHaveLength(1)
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByRole('link', { name: 'receipt' }).waitFor()
})

test('stop says what was billed', async () => {
  const { page, customerId } = await playground()
  await page.getByLabel('Prompt', { exact: true }).fill('Tell me everything about railways.')
  await page.getByRole('button', { name: 'Send' }).click()
  const answer = page.getByRole('article').last()
  await expect.poll(async () => (await answer.textContent())!.length).toBeGreaterThan(20)
  await page.getByRole('button', { name: 'Stop' }).click()
  const billed = answer.getByText(/^Billed 0\.\d+ USD for \d+ tokens\.$/)
  await billed.waitFor()
  const shown = Number(/[\d.]+\d/.exec((await billed.textContent())!)![0])
  const { rows } = await app.database.pool.query<{ cost: number }>(
    'SELECT cost_nanos::float8 / 1e9 AS cost FROM usage_event WHERE customer_id = $1',
    [customerId],
  )
  expect(rows).toEqual([{ cost: shown }])
})

test('a link fills the prompt in and sends nothing, not even for a quote', async () => {
  const { page, posts, customerId } = await playground('?prompt=Transfer%20it&tier=cheapest&model=demo')
  expect(await page.getByLabel('Prompt', { exact: true }).inputValue()).toBe('Transfer it')
  await page.getByText('A link filled this in').waitFor()
  await page.getByText('Request', { exact: true }).click()
  const request = JSON.parse((await page.getByRole('region', { name: 'the request' }).textContent())!)
  expect(request).toEqual({ model: 'demo', messages: [{ role: 'user', content: 'Transfer it' }], tier: 'cheapest' })
  expect(posts).toEqual([])
  expect(await keys(customerId)).toEqual([])
})

test('a key that another tab ended is made again', async () => {
  const { page, customerId } = await playground()
  await page.getByLabel('Prompt', { exact: true }).fill('Hello!')
  await page.getByText(/^Quote/).waitFor()
  await page.evaluate(
    path => fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }),
    `/console/api/customers/${customerId}/playground-key`,
  )
  let typed = 'Hello again'
  await expect
    .poll(async () => {
      typed += '!'
      await page.getByLabel('Prompt', { exact: true }).fill(typed)
      await page.waitForResponse(response => response.url().endsWith('/v1/chat/completions'))
      return (await keys(customerId)).length
    })
    .toBe(3)
})

test('a system prompt and parameters are sent, and the prompt stays at the foot', async () => {
  const { page } = await playground()
  await page.getByText('System prompt and parameters').click()
  await page.getByLabel('System prompt', { exact: true }).fill('Answer in one word.')
  await page.getByLabel('Temperature').fill('0,5')
  await page.getByLabel('Most output tokens').fill('3')
  await page.getByLabel('Prompt', { exact: true }).fill('Hello!')
  await page.getByText('Request', { exact: true }).click()
  const request = JSON.parse((await page.getByRole('region', { name: 'the request' }).textContent())!)
  expect(request).toMatchObject({
    messages: [
      { role: 'system', content: 'Answer in one word.' },
      { role: 'user', content: 'Hello!' },
    ],
    temperature: 0.5,
    max_tokens: 3,
  })
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByRole('link', { name: 'receipt' }).waitFor()
  await page.setViewportSize({ width: 1280, height: 400 })
  await page.evaluate('scrollTo(0, 0)')
  const box = (await page.getByRole('button', { name: 'Send' }).boundingBox())!
  expect(box.y + box.height).toBeLessThanOrEqual(400)
})
