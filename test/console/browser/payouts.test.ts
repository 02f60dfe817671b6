import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { addHosterMember } from '../../../src/market/marketplace/hoster-members.ts'
import { applyPayoutChanges } from '../../../src/money/payouts/payout-accounts.ts'
import { closePromotionDays } from '../../../src/money/payouts/promotions.ts'
import { startTestApp, type TestApp } from '../../harness/app.ts'
import { makeOperator, PASSWORD } from '../../harness/browser-client.ts'
import { byKeyboard } from '../../harness/by-keyboard.ts'
import { axeFindings, settled, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { admissionOf, settle, settlementOf } from '../../ledger/ledger-world.ts'
import { createPayoutWorld, DAY_MS, type PayoutWorld, rules, USD } from '../../payouts/payout-world.ts'

// How hosters are paid, in a real browser: by the operator, and as the hoster sees it.

const chromium = useChromium()
const open: WatchedPage[] = []
let world: PayoutWorld
let app: TestApp
/** Its day is past the hold. */
const PAST_MS = Date.now() - 40 * DAY_MS

beforeAll(async () => {
  world = await createPayoutWorld()
  app = await startTestApp({ offers: [], database: world, yaml: 'payouts: { min_usd: 2 }' })
})
afterAll(async () => {
  await app.close()
  await world.drop()
})
afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints).filter(text => !/status of 4\d\d/.test(text))
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

/** A hoster that earned 0.80 USD for each charge. No other hoster is paid in this test. */
async function hosterWith(charges: number, more?: { hasAccount?: boolean }) {
  await world.pool.query('UPDATE hoster SET payout_frozen_at = now()')
  const hosterId = await world.addHoster(more)
  await world.pool.query(
    "INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url) VALUES (gen_random_uuid(), $1, 'https://models.example.com/v1')",
    [hosterId],
  )
  const customerId = await world.addCustomer(BigInt(charges + 1) * USD)
  const { ledger } = await world.addLivingNode()
  for (let n = 0; n < charges; n++) {
    const admission = admissionOf(customerId, USD, { modelId: 'm' })
    await ledger.admit(admission)
    await settle(ledger, settlementOf(admission, USD, USD, { hosterId, startedAtEpochMs: PAST_MS }))
  }
  const { rows } = await world.pool.query<{ name: string }>('SELECT name FROM hoster WHERE hoster_id = $1', [hosterId])
  return { hosterId, name: rows[0]!.name }
}

async function personPage(width = 1280) {
  const { customerId } = await app.customer({ creditNanos: 0n })
  const watched = await openSignedIn(chromium.browser, app, customerId, { width })
  open.push(watched)
  const { rows } = await world.pool.query<{ id: string }>('SELECT person_id AS id FROM person WHERE email = $1', [
    watched.email,
  ])
  return { page: watched.page, personId: rows[0]!.id, customerId }
}

async function operatorPage(width?: number): Promise<Page> {
  const { page, personId } = await personPage(width)
  await makeOperator(app, personId)
  return page
}

async function ownerPage(hosterId: string, width?: number) {
  const person = await personPage(width)
  await addHosterMember(world.pool, { hosterId, personId: person.personId, role: 'owner' })
  return person
}

const click = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).click()
const clickInDialog = (page: Page, title: string | RegExp, action: string) =>
  page.getByRole('dialog', { name: title }).getByRole('button', { name: action, exact: true }).click()
const table = (page: Page, name: string) => page.getByRole('table', { name })
const audited = async (subject: string) =>
  (
    await world.pool.query<{ action: string; reason: string }>(
      "SELECT action, detail ->> 'reason' AS reason FROM audit_entry WHERE subject = $1 ORDER BY entry_id",
      [subject],
    )
  ).rows

test('a batch is prepared, approved, sent and booked; a transfer that failed is paid by the next one', async () => {
  const { hosterId, name } = await hosterWith(5)
  const page = await operatorPage()
  await page.goto('/operator/payouts')
  for (const outcome of ['failed', 'paid']) {
    await click(page, 'Prepare bank transfers')
    await page.getByRole('heading', { name: 'Batch of payouts' }).waitFor()
    await click(page, 'Approve')
    await click(page, 'Make the file for the bank')
    await page.locator('pre').filter({ hasText: 'reference,holder' }).waitFor()
    if (outcome === 'failed') {
      await click(page, `Failed to ${name}`)
      const dialog = page.getByRole('dialog', { name: `The transfer to ${name} failed` })
      await dialog.getByLabel('Reason').fill('The account is closed.')
      await dialog.getByRole('button', { name: 'Book it as failed' }).click()
      await table(page, 'Payouts of the batch').getByText('The account is closed.').waitFor()
      await page.goto('/operator/payouts')
    } else {
      await click(page, `Paid to ${name}`)
      await expect.poll(() => table(page, 'Payouts of the batch').textContent()).toContain('paid')
    }
  }
  const { page: own } = await ownerPage(hosterId)
  await own.goto(`/h/${hosterId}/earnings`)
  await expect.poll(() => table(own, 'Payouts').textContent()).toMatch(/paid.*4\.00/)
  expect(await table(own, 'Payouts').textContent()).toContain('The account is closed.')
})

test('an operator freezes payouts and pays again, each with a reason', async () => {
  const { hosterId, name } = await hosterWith(4)
  const page = await operatorPage()
  await page.goto(`/operator/hosters/${hosterId}`)
  await click(page, 'Freeze payouts')
  const freeze = page.getByRole('dialog', { name: `Freeze the payouts of ${name}?` })
  await freeze.getByLabel('Reason').fill('We check its answers.')
  await freeze.getByRole('button', { name: 'Freeze them' }).click()
  await page.getByText('frozen', { exact: true }).waitFor()

  const { page: own } = await ownerPage(hosterId)
  await own.goto(`/h/${hosterId}/earnings`)
  await own.getByText('Payouts are frozen: We check its answers.').waitFor()
  await page.goto('/operator/payouts')
  await click(page, 'Prepare bank transfers')
  await expect.poll(() => table(page, 'Not paid').textContent()).toMatch(new RegExp(`${name}.*frozen`))

  await page.goto(`/operator/hosters/${hosterId}`)
  await click(page, 'Pay it again')
  const release = page.getByRole('dialog', { name: `Pay ${name} again?` })
  await release.getByLabel('Reason').fill('Its answers are right.')
  await release.getByRole('button', { name: 'Pay it again' }).click()
  await page.getByText('in the next batch').waitFor()
  expect(await audited(hosterId)).toEqual(
    expect.arrayContaining([
      { action: 'hoster.payouts_frozen', reason: 'We check its answers.' },
      { action: 'hoster.payouts_released', reason: 'Its answers are right.' },
    ]),
  )
})

test('earnings are taken back, after the password is asked for, and given back', async () => {
  const { hosterId, name } = await hosterWith(5)
  const page = await operatorPage()
  await page.goto(`/operator/hosters/${hosterId}`)
  await page.getByText('in the next batch').waitFor()
  await world.pool.query("UPDATE person_session SET confirmed_at = now() - interval '1 hour'")
  await click(page, 'Take earnings back')
  const take = page.getByRole('dialog', { name: `Take earnings back from ${name}` })
  await take.getByLabel('Amount, USD').fill('40')
  await take.getByLabel('Reason').fill('Answers of a smaller model.')
  await take.getByRole('button', { name: 'Take it back' }).click()
  const password = page.getByRole('dialog', { name: 'Type your password again' })
  await password.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await password.getByRole('button', { name: 'Continue' }).click()
  await take.getByText('The hoster never earned this much.').waitFor()
  await take.getByLabel('Amount, USD').fill('1.5')
  await take.getByRole('button', { name: 'Take it back' }).click()
  await table(page, 'Taken back').getByText('Answers of a smaller model.').waitFor()
  const { page: own } = await ownerPage(hosterId)
  await own.goto(`/h/${hosterId}/earnings`)
  await expect.poll(() => table(own, 'Other movements').textContent()).toMatch(/taken back.*smaller model.*−1\.50/)

  await click(page, 'Give back 1.50 USD')
  const give = page.getByRole('dialog', { name: `Give 1.50 USD back to ${name}?` })
  await give.getByLabel('Reason').fill('There was no fraud.')
  await give.getByRole('button', { name: 'Give it back' }).click()
  await table(page, 'Taken back').getByText('given back: There was no fraud.').waitFor()
  await own.reload()
  await expect.poll(() => table(own, 'Other movements').textContent()).toMatch(/given back.*no fraud.*\+1\.50/)
  expect(await audited(hosterId)).toEqual(
    expect.arrayContaining([
      { action: 'hoster.clawed_back', reason: 'Answers of a smaller model.' },
      { action: 'hoster.clawback_returned', reason: 'There was no fraud.' },
    ]),
  )
})

test('an alarm leads to the page Payouts, where an operator decides on promotional earnings of related customers', async () => {
  const { hosterId, name } = await hosterWith(1)
  const { personId } = await ownerPage(hosterId)
  const related = await world.addCustomer(USD)
  await world.pool.query("INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'viewer')", [
    related,
    personId,
  ])
  await world.charge(related, hosterId, Date.now(), USD)
  // In no batch: the hoster has less than the minimum.
  await closePromotionDays(world.pool, rules, Date.now() + 40 * DAY_MS)
  const page = await operatorPage()
  await page.goto('/operator')
  await page.getByText('come from related customers and wait for a decision.').waitFor()
  await page.goto('/operator/payouts')
  const reviews = table(page, 'Promotional earnings of related customers')
  await expect.poll(() => reviews.textContent()).toMatch(new RegExp(`${name}.*: member.*0\\.80`))
  await click(page, `Withhold from ${name}`)
  const dialog = page.getByRole('dialog', { name: `Withhold them from ${name}?` })
  await dialog.getByLabel('Reason').fill('It is their own account.')
  await dialog.getByRole('button', { name: 'Withhold them' }).click()
  await page.getByText('They went back to the promotion account.').waitFor()
  await expect.poll(() => reviews.count()).toBe(0)
  expect(await audited(hosterId)).toContainEqual({
    action: 'payout.promotion_withheld',
    reason: 'It is their own account.',
  })
})

test('an operator notes a contract and its end, each with a reason', async () => {
  const { hosterId, name } = await hosterWith(1)
  const page = await operatorPage()
  await page.goto(`/operator/hosters/${hosterId}`)
  await click(page, 'Note a contract')
  await page
    .getByRole('dialog', { name: `Is ${name} under contract?` })
    .getByLabel('Reason')
    .fill('Contract 12')
  await clickInDialog(page, `Is ${name} under contract?`, 'It is under contract')
  await click(page, 'End the contract')
  await page
    .getByRole('dialog', { name: `Has the contract with ${name} ended?` })
    .getByLabel('Reason')
    .fill('It ran out')
  await clickInDialog(page, `Has the contract with ${name} ended?`, 'It has ended')
  await page.getByRole('button', { name: 'Note a contract' }).waitFor()
  expect((await audited(name)).map(({ reason }) => reason)).toEqual(['Contract 12', 'It ran out'])
})

test('a hoster names its account and spends earnings here', async () => {
  const { hosterId } = await hosterWith(3, { hasAccount: false })
  const { page, customerId } = await ownerPage(hosterId)
  await page.goto(`/h/${hosterId}/earnings`)
  await page.getByText('No account is named yet').waitFor()
  await click(page, 'Name an account')
  const account = page.getByRole('dialog', { name: 'Payout account' })
  await account.getByLabel('Account holder').fill('Acme GmbH')
  await account.getByLabel('Account number').fill('DE89 3704 0044 0532 0130 01')
  await account.getByRole('button', { name: 'Save' }).click()
  // The check digits are wrong.
  await account.getByRole('alert').waitFor()
  await account.getByLabel('Account number').fill('DE89 3704 0044 0532 0130 00')
  await account.getByRole('button', { name: 'Save' }).click()
  const waiting = table(page, 'Changes that wait')
  await waiting.getByText('Acme GmbH, …3000').waitFor()
  await click(page, 'Stop it')
  await expect.poll(() => waiting.count()).toBe(0)

  await click(page, 'Spend it here')
  await page.getByRole('dialog', { name: 'Which customer gets it?' }).getByRole('button', { name: 'Save' }).click()
  await waiting.getByText('the balance of').waitFor()
  await applyPayoutChanges(world.pool, Date.now() + 4 * DAY_MS)
  await page.reload()
  await click(page, 'Spend it here')
  const move = page.getByRole('dialog', { name: 'Spend earnings here' })
  await move.getByLabel('Amount, USD').fill('1')
  await move.getByRole('button', { name: 'Next' }).click()
  await move.getByRole('button', { name: 'Move it' }).click()
  await expect.poll(() => table(page, 'Other movements').textContent()).toContain('−1.00')
  await page.goto(`/c/${customerId}/credits`)
  await expect.poll(() => table(page, 'Statement').textContent()).toContain('1.00')
})

test('a batch is prepared, approved, sent and booked with the keyboard alone', async () => {
  const { name } = await hosterWith(4)
  const page = await operatorPage()
  await page.goto('/operator/payouts')
  await page.getByRole('button', { name: 'Prepare bank transfers' }).waitFor()
  await byKeyboard(page, /^Prepare bank transfers$/)
  await page.getByRole('heading', { name: 'Batch of payouts' }).waitFor()
  for (const [button, after] of [
    [/^Approve$/, page.getByRole('button', { name: 'Make the file for the bank' })],
    [/^Make the file for the bank$/, page.locator('pre').filter({ hasText: 'reference,holder' })],
    [new RegExp(`^Failed to ${name}$`), page.getByRole('dialog').getByLabel('Reason')],
  ] as const) {
    await page.getByRole('button', { name: button }).waitFor()
    await byKeyboard(page, button)
    await after.waitFor()
  }
  // The dialog has the focus in its field, and Enter sends it.
  await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('INPUT')
  await page.keyboard.type('The account is closed.')
  await page.keyboard.press('Enter')
  await table(page, 'Payouts of the batch').getByText('The account is closed.').waitFor()
})

test.each([1280, 360])('at %i px, the pages of payouts fit and have no findings of axe', async width => {
  const { hosterId } = await hosterWith(4)
  const page = await operatorPage(width)
  await page.goto('/operator/payouts')
  await click(page, 'Prepare bank transfers')
  await page.getByRole('heading', { name: 'Batch of payouts' }).waitFor()
  await click(page, 'Approve')
  await click(page, 'Make the file for the bank')
  await page.locator('pre').filter({ hasText: 'reference,holder' }).waitFor()
  const found: string[] = []
  const check = async (view: Page, what: string) => {
    await settled(view)
    found.push(...(await axeFindings(view)).map(text => `${what}: ${text}`))
    const excess = await view.evaluate('document.documentElement.scrollWidth - innerWidth')
    if (excess !== 0) found.push(`${what} is ${excess} px too wide`)
  }
  await check(page, 'the file')
  await page.goto('/operator/payouts')
  await check(page, 'the batches')
  await page.goto(`/operator/hosters/${hosterId}`)
  await click(page, 'Take earnings back')
  await page.getByRole('dialog').getByLabel('Reason').waitFor()
  await check(page, 'the hoster')
  const { page: own } = await ownerPage(hosterId, width)
  await own.goto(`/h/${hosterId}/earnings`)
  await table(own, 'Payouts').waitFor()
  await click(own, 'Change the account')
  await own.getByRole('dialog', { name: 'Payout account' }).waitFor()
  await check(own, 'earnings')
  expect(found).toEqual([])
})
