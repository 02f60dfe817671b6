import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { testOffer } from '../../harness/app.ts'
import { useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { stall, status } from '../../harness/scripted-upstream.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

// What becomes of a talk whose page is left in the middle of an answer.

const upstream = useUpstream('file')
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints).filter(text => !/status of 5\d\d/.test(text))
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

async function playground() {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  const { page } = watched
  await page.goto(`/c/${customerId}/playground`)
  await page.getByLabel('Prompt', { exact: true }).waitFor()
  return { page, customerId }
}

async function send(page: Page, prompt: string) {
  await page.getByLabel('Prompt', { exact: true }).fill(prompt)
  await page.getByRole('button', { name: 'Send' }).click()
}

/** Sends a prompt, and waits for the part of the answer that arrives. */
async function begin(page: Page, prompt: string) {
  upstream.always(stall({ pieces: ['Boats go ', 'at nine.'] }))
  await send(page, prompt)
  await page.getByText('Boats go at nine.').waitFor()
}

async function leaveFor(page: Page, title: string) {
  await page.getByRole('link', { name: title, exact: true }).first().click()
}

const listOf = (page: Page) => page.getByRole('dialog', { name: 'Talks' })

async function openTalks(page: Page) {
  await page.getByRole('button', { name: 'Talks', exact: true }).click()
}

test('a page that is left stops the answer, and keeps what has arrived with what it cost', async () => {
  const { page, customerId } = await playground()
  await begin(page, 'When do ferries leave?')
  await leaveFor(page, 'Usage')
  await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor()
  const outcomes = async () => {
    const { rows } = await app.database.pool.query<{ outcome: string }>(
      'SELECT outcome FROM usage_event WHERE customer_id = $1',
      [customerId],
    )
    return rows.map(({ outcome }) => outcome)
  }
  await expect.poll(outcomes).toEqual(['client_gone'])
  await leaveFor(page, 'Playground')
  await openTalks(page)
  await listOf(page)
    .getByRole('button', { name: /^When do ferries leave\?/ })
    .click()
  const answer = page.getByRole('article').last()
  await answer.getByText('Boats go at nine.').waitFor()
  await answer.getByText(/^Billed 0\.\d+ USD for \d+ tokens\.$/).waitFor()
})

test('a tab that is closed leaves what had arrived to the next one', async () => {
  const { page, customerId } = await playground()
  await begin(page, 'When do ferries leave?')
  const other = await page.context().newPage()
  await other.goto(`/c/${customerId}/playground`)
  const kept = async () => {
    await other.reload()
    await openTalks(other)
    const talk = listOf(other).getByRole('button', { name: /^When do ferries leave\?/ })
    await talk.or(listOf(other).getByText('No talk yet.')).waitFor()
    if ((await talk.count()) === 0) return null
    await talk.click()
    return other.getByRole('article').last().textContent()
  }
  await expect.poll(kept).toContain('Boats go at nine.')
  await page.close()
  await other.getByRole('article').last().getByText('Stopped.').waitFor()
})

test('a prompt that no model answers comes back, and no talk keeps it', async () => {
  upstream.always(status(500, 'out of memory'))
  const { page } = await playground()
  await send(page, 'Hello?')
  const prompt = page.getByLabel('Prompt', { exact: true })
  await expect.poll(() => prompt.inputValue()).toBe('Hello?')
  await openTalks(page)
  await listOf(page).getByText('No talk yet.').waitFor()
})

test('a private talk, which is not kept, asks before it is left', async () => {
  const { page } = await playground()
  await page.getByLabel('Private').check()
  await begin(page, 'When do ferries leave?')
  await leaveFor(page, 'Usage')
  const dialog = page.getByRole('dialog', { name: 'Leave the private talk?' })
  await dialog.getByRole('button', { name: 'Stay' }).click()
  await page.getByRole('button', { name: 'Stop' }).waitFor()
  const asked = page.waitForEvent('dialog')
  await page.close({ runBeforeUnload: true })
  await (await asked).dismiss()
  await leaveFor(page, 'Usage')
  await dialog.getByRole('button', { name: 'Leave' }).click()
  await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor()
  await leaveFor(page, 'Playground')
  await openTalks(page)
  await listOf(page).getByText('No talk yet.').waitFor()
})
