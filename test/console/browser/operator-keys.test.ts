import { expect, test } from 'vitest'
import { makeOperator } from '../../harness/browser-client.ts'
import { axeFindings, settled, useChromium } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp } from '../../harness/use-test-app.ts'

const app = useTestApp()
const chromium = useChromium()

test('an operator makes a key of the operator API, uses it, and revokes it', async () => {
  const { customerId } = await app.customer()
  const { page, context, email, complaints } = await openSignedIn(chromium.browser, app, customerId)
  await makeOperator(app, email)
  await page.goto(`${app.url}/operator/people`)
  await page.getByRole('button', { name: 'Make a key' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('reports')
  await dialog.getByRole('button', { name: 'Make the key' }).click()
  const shown = page.getByText(/^ok-sy-\w{38}$/)
  await shown.waitFor()
  const key = await shown.innerText()
  const ask = () => fetch(`${app.url}/v1/admin/customers`, { headers: { authorization: `Bearer ${key}` } })
  expect((await ask()).status).toBe(200)
  await page.keyboard.press('Escape')
  await page.reload()
  await page.getByRole('button', { name: 'Revoke reports' }).waitFor()
  await settled(page)
  expect(await axeFindings(page)).toEqual([])
  await page.getByRole('button', { name: 'Revoke reports' }).click()
  await page.getByRole('dialog').getByRole('textbox').fill('reports')
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke the key' }).click()
  await expect.poll(async () => (await ask()).status).toBe(401)
  expect(complaints.filter(text => !/status of 4\d\d/.test(text))).toEqual([])
  await context.close()
})
