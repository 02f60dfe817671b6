import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { makeOperator } from '../../harness/browser-client.ts'
import { axeFindings, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { status } from '../../harness/scripted-upstream.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

// What operators do with servers and clouds while the gateway runs, in a real browser.

const app = useTestApp()
const upstream = useUpstream()
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(watched => watched.complaints)
  await Promise.all(open.splice(0).map(({ context }) => context.close()))
  expect(complaints.filter(text => !/status of 4\d\d/.test(text))).toEqual([])
})

async function operatorPage(): Promise<Page> {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  await makeOperator(app, watched.email)
  return watched.page
}

const click = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).click()
const dialog = (page: Page) => page.getByRole('dialog')
const chat = async (model: string) => {
  await app.app.noticeChanges()
  const customer = await app.customer()
  return (await app.chat(customer, { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 })).status
}

test('from an empty gateway to a sold answer, another price, a stop and the end', async () => {
  upstream.respondToProbesWith(
    status(200, { object: 'list', data: [{ id: 'test-model', context_length: 8_000 }, { id: 'other-model' }] }),
  )
  const page = await operatorPage()
  await page.goto('/operator/providers')
  await click(page, 'Add a provider')
  await dialog(page)
    .getByRole('combobox', { name: 'Provider' })
    .or(page.getByRole('textbox', { name: 'Provider' }))
    .click()
  await page.getByRole('option', { name: 'Other, OpenAI-compatible' }).click()
  await page.getByRole('textbox', { name: 'Name' }).fill('acme')
  await page.getByRole('textbox', { name: 'Address' }).fill(upstream.baseUrl)
  await page.getByLabel('Key', { exact: true }).fill('sk-secret')
  await click(page, 'Ask for its models')
  await page.getByRole('checkbox', { name: 'test-model' }).check()
  await page.getByLabel('Input price of test-model').fill('1')
  await page.getByLabel('Output price of test-model').fill('2,5')
  await click(page, 'Test test-model')
  await page.getByText(/^answers/).waitFor()
  expect(upstream.requests.at(-1)!.headers.authorization).toBe('Bearer sk-secret')
  expect(await axeFindings(page)).toEqual([])
  await click(page, 'Sell 1 model')
  await page
    .getByRole('table', { name: 'Models of acme' })
    .getByText(/^1(\.00)? in . 2\.50? out$/)
    .waitFor()
  expect(await chat('test-model')).toBe(200)

  await click(page, 'Models and prices')
  await page.getByLabel('Output price of test-model').fill('3')
  await click(page, 'Ask the server for its models')
  await page.getByRole('checkbox', { name: 'other-model' }).waitFor()
  await page.getByLabel('Reason').fill('dearer')
  await click(page, 'Save')
  await page
    .getByRole('table', { name: 'Models of acme' })
    .getByText(/^1(\.00)? in . 3(\.00)? out$/)
    .waitFor()
  await page.getByText(/· version 2,/).waitFor()

  await click(page, 'Disable test-model at acme')
  await page.getByLabel('Reason').fill('it fails')
  await dialog(page).getByRole('button', { name: 'Disable' }).click()
  await page.getByRole('table', { name: 'Models of acme' }).getByText('disabled').waitFor()
  expect(await chat('test-model')).toBe(404)

  await click(page, 'Remove')
  await page.getByLabel('Reason').fill('the contract ended')
  await dialog(page).getByRole('button', { name: 'Remove' }).click()
  await page.getByText('There is no provider yet.').waitFor()
})

test('a model without a list price gets its cost typed, and the percentage says so until then', async () => {
  upstream.respondToProbesWith(status(200, { object: 'list', data: [{ id: 'test-model', context_length: 8_000 }] }))
  const page = await operatorPage()
  await page.goto('/operator/providers')
  await click(page, 'Add a provider')
  await dialog(page)
    .getByRole('combobox', { name: 'Provider' })
    .or(page.getByRole('textbox', { name: 'Provider' }))
    .click()
  await page.getByRole('option', { name: 'Other, OpenAI-compatible' }).click()
  await page.getByRole('textbox', { name: 'Name' }).fill('costly')
  await page.getByRole('textbox', { name: 'Address' }).fill(upstream.baseUrl)
  await click(page, 'Ask for its models')
  await page.getByRole('checkbox', { name: 'test-model' }).check()
  const doesNothing = page.getByText(/^The percentage does not change the price of test-model/)
  await doesNothing.waitFor()
  const percent = page.getByLabel('Sold at, % of what it costs you')
  await percent.fill('150')
  await page.getByLabel('Input cost of test-model').fill('2')
  await page.getByLabel('Output cost of test-model').fill('4')
  await doesNothing.waitFor({ state: 'detached' })
  const prices = async () => [
    await page.getByLabel('Input price of test-model').inputValue(),
    await page.getByLabel('Output price of test-model').inputValue(),
  ]
  expect(await prices()).toEqual(['3', '6'])
  await page.getByLabel('Output price of test-model').fill('7')
  await page.getByLabel('Output cost of test-model').fill('5')
  expect(await prices()).toEqual(['3', '7'])
  await percent.fill('200')
  expect(await prices()).toEqual(['4', '10'])
  await click(page, 'Sell 1 model')
  const table = page.getByRole('table', { name: 'Models of costly' })
  await table.getByText(/^2(\.00)? in . 5(\.00)? out$/).waitFor()
  await table.getByText(/^4(\.00)? in . 10(\.00)? out$/).waitFor()
})

test('a server that refuses the key says so, and a setting that is wrong is named', async () => {
  upstream.respondToProbesWith(status(401, { error: { message: 'no' } }))
  const page = await operatorPage()
  await page.goto('/operator/providers')
  await click(page, 'Add a provider')
  await dialog(page)
    .getByRole('combobox', { name: 'Provider' })
    .or(page.getByRole('textbox', { name: 'Provider' }))
    .click()
  await page.getByRole('option', { name: 'OpenRouter' }).click()
  await page.getByRole('textbox', { name: 'Address' }).fill(upstream.baseUrl)
  await click(page, 'Ask for its models')
  await page.getByText(/it refuses the key/).waitFor()
  await page.getByRole('textbox', { name: 'Address' }).fill(`${upstream.baseUrl}/chat/completions`)
  await click(page, 'Ask for its models')
  const address = page.getByRole('textbox', { name: 'Address' })
  await page.getByText(/^“Address” ends in \/chat\/completions/).waitFor()
  expect(await address.getAttribute('aria-invalid')).toBe('true')
  expect(await page.locator(':focus').getAttribute('name')).toBe('settings.base_url')
  await page.getByRole('textbox', { name: 'Name' }).fill('Upper Case')
  await address.fill(upstream.baseUrl)
  await click(page, 'Ask for its models')
  await page.getByText(/^“Name” is "Upper Case"; it must be a lower-case name/).waitFor()
  expect(await page.getByText(/settings\.|base_url/).count()).toBe(0)
})

test('an address that is not finished is not asked, and one of nobody is named in words', async () => {
  const page = await operatorPage()
  await page.goto('/operator/providers')
  await click(page, 'Add a provider')
  await dialog(page)
    .getByRole('combobox', { name: 'Provider' })
    .or(page.getByRole('textbox', { name: 'Provider' }))
    .click()
  await page.getByRole('option', { name: 'Other, OpenAI-compatible' }).click()
  await page.getByText('Replace HOST.').waitFor()
  const address = page.getByRole('textbox', { name: 'Address' })
  await click(page, 'Ask for its models')
  expect(
    await address.evaluate(element => (element as unknown as { validationMessage: string }).validationMessage),
  ).toBe('Replace HOST.')
  await address.fill('http://nobody.invalid/v1')
  await click(page, 'Ask for its models')
  await page.getByText('No server has the name nobody.invalid. Check the address.').waitFor()
  await address.fill('http://127.0.0.1:9/v1')
  await click(page, 'Ask for its models')
  await page.getByText(/^Nothing answers at http:\/\/127\.0\.0\.1:9\/v1\./).waitFor()
})
