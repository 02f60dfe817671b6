import { expect, test } from 'vitest'
import { axeFindings, settled, useChromium } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'

const app = useDemoApp()
const chromium = useChromium()
const LABEL = 'Share some of our requests to find hosters that cheat'

test('an owner shares requests by a switch that says what is sent where, and members only see it', async () => {
  const { customerId } = await app.customer()
  const owner = await openSignedIn(chromium.browser, app, customerId)
  const viewer = await openSignedIn(chromium.browser, app, customerId, { role: 'viewer' })
  const path = `/c/${customerId}/settings/account`
  await owner.page.goto(path)
  await owner.page.getByText(/to another server of the same model/).waitFor()
  const box = owner.page.getByRole('checkbox', { name: LABEL })
  expect(await box.isChecked()).toBe(false)
  await box.focus()
  await owner.page.keyboard.press('Space')
  await owner.page.getByText('Requests are shared.').waitFor()
  await expect.poll(() => box.isChecked()).toBe(true)

  await viewer.page.goto(path)
  const seen = viewer.page.getByRole('checkbox', { name: LABEL })
  await expect.poll(() => seen.isChecked()).toBe(true)
  expect(await seen.isDisabled()).toBe(true)

  await box.click()
  await owner.page.getByText('No request is shared from now on.').waitFor()
  await expect.poll(() => box.isChecked()).toBe(false)
  for (const width of [360, 1280]) {
    await owner.page.setViewportSize({ width, height: 800 })
    await owner.page.goto(path)
    await settled(owner.page)
    expect(await axeFindings(owner.page), `${width}`).toEqual([])
  }
  for (const { context, complaints } of [owner, viewer]) {
    await context.close()
    expect(complaints).toEqual([])
  }
})
