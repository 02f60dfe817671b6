import { expect, test } from 'vitest'
import { axeFindings, settled, useChromium } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'

const app = useDemoApp()
const chromium = useChromium()

const chat = async (key: string, label?: string) => {
  const response = await fetch(`${app.url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...(label !== undefined && { 'x-switchyard-label': label }),
    },
    body: JSON.stringify({ model: 'demo', max_tokens: 20, messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  await response.text()
  return response.status
}

test('a member over the limit sees why, an owner raises it, and the next request runs', async () => {
  const { customerId } = await app.customer()
  const bob = await openSignedIn(chromium.browser, app, customerId, { role: 'developer' })
  const owner = await openSignedIn(chromium.browser, app, customerId)

  await bob.page.goto(`/c/${customerId}/keys`)
  await bob.page.getByRole('button', { name: 'Make a key' }).first().click()
  await bob.page.getByLabel('Name').fill('bot')
  await bob.page.getByLabel('Label').fill('support')
  await bob.page.getByRole('button', { name: 'Make the key' }).click()
  const key = (await bob.page
    .getByText(/^sk-sy-[0-9A-Za-z]{38}$/)
    .first()
    .textContent())!
  expect(await chat(key)).toBe(200)
  expect(await chat(key, 'experiment')).toBe(200)

  // The owner limits the member with the keyboard.
  await owner.page.goto(`/c/${customerId}/settings/people`)
  const setLimit = owner.page.getByRole('button', { name: `Set a limit of ${bob.email}` })
  await setLimit.focus()
  await owner.page.keyboard.press('Enter')
  const dialog = owner.page.getByRole('dialog', { name: `Spend limit of ${bob.email}` })
  await dialog.getByLabel('Limit in USD').fill('0,00000001')
  await owner.page.keyboard.press('Enter')
  await owner.page.getByText('The limit is changed.').waitFor()
  await owner.page.getByText('0.00 of 0.00000001 USD').waitFor()
  await expect.poll(() => chat(key)).toBe(402)

  // The member sees the limit on the first screen, and why a request is refused in the playground.
  await bob.page.goto(`/c/${customerId}`)
  await bob.page.getByText('Yours this month').waitFor()
  await bob.page.goto(`/c/${customerId}/playground`)
  await bob.page.getByLabel('Prompt', { exact: true }).fill('Hello')
  await bob.page.getByRole('button', { name: 'Send' }).click()
  const refusal = bob.page.getByText(/with a spend limit of 0\.00000001 USD over all keys/).first()
  await refusal.waitFor()
  expect(await refusal.textContent()).toMatch(/resets at .* An owner of the account can raise it/)

  await owner.page.getByRole('button', { name: `Change the limit of ${bob.email}` }).click()
  await dialog.getByLabel('Limit in USD').fill('5')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await expect.poll(() => chat(key)).toBe(200)
  // What the member spends appears without a reload.
  await expect.poll(() => owner.page.getByText(/^0\.0000\d+ of 5\.00 USD$/).count(), { timeout: 30_000 }).toBe(1)

  await owner.page.goto(`/c/${customerId}/usage?split=label`)
  const labels = owner.page.getByRole('table', { name: 'Usage by label' })
  // The polls above may have sent more requests under the key's label.
  const requestsOf = (label: string) => labels.getByRole('row', { name: label }).getByRole('cell').nth(2).textContent()
  await expect.poll(async () => Number(await requestsOf('support'))).toBeGreaterThanOrEqual(2)
  expect(await requestsOf('experiment')).toBe('1')
  await expect.poll(() => owner.page.getByRole('table', { name: 'Usage by member' }).textContent()).toContain(bob.email)
  await settled(owner.page)
  for (const path of [`/c/${customerId}/usage?split=label`, `/c/${customerId}/settings/people`]) {
    for (const width of [360, 1280]) {
      await owner.page.setViewportSize({ width, height: 800 })
      await owner.page.goto(path)
      await settled(owner.page)
      expect(await axeFindings(owner.page), `${path} ${width}`).toEqual([])
      expect(await owner.page.evaluate('document.documentElement.scrollWidth - innerWidth'), path).toBe(0)
    }
  }
  for (const { context, complaints } of [bob, owner]) {
    await context.close()
    expect(complaints.filter(text => !/status of 4\d\d/.test(text))).toEqual([])
  }
})
