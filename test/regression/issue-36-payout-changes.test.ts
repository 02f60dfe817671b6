import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { commandLine } from '../../src/base/domain/acting.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { createPeopleMail } from '../../src/identity/people/people-mail.ts'
import { changeHosterMember } from '../../src/market/marketplace/hoster-members.ts'
import { createChangeNotices } from '../../src/money/payouts/change-notices.ts'
import { moveEarnings } from '../../src/money/payouts/earnings.ts'
import { applyPayoutChanges, listPayoutChanges, readPayoutAccount } from '../../src/money/payouts/payout-accounts.ts'
import { payoutsOfHoster } from '../../src/money/payouts/read-payouts.ts'
import type { PreparedBatchShown } from '../../src/wire/api/operator/payouts.ts'
import type { PayoutAccountShown } from '../../src/wire/api/payouts.ts'
import { startSmtpSink } from '../alerts/smtp-sink.ts'
import { startTestApp, type TestApp } from '../harness/app.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { signedInHoster } from '../harness/hosters.ts'
import { useResource } from '../harness/use-resource.ts'
import { createPayoutWorld, DAY_MS, type PayoutWorld, USD } from '../payouts/payout-world.ts'

// A member with the role billing redirected payouts by two changes: the account, and the customer that gets earnings. Nobody heard of
// it. Now such changes wait 72 hours, owners get a mail, and each of them can stop them.

const HOUR_MS = 3_600_000
// In an object of its own, since the handle is a copy.
const smtp = useResource(
  async () => ({ sink: await startSmtpSink() }),
  ({ sink }) => sink.close(),
)
let world: PayoutWorld
let app: TestApp
let operator: BrowserClient

beforeAll(async () => {
  world = await createPayoutWorld()
  const yaml = `payouts: { min_usd: 1 }\nsmtp:\n  host: 127.0.0.1\n  port: ${smtp.sink.port}\n  security: none\n`
  app = await startTestApp({ offers: [], database: world, yaml })
  operator = (await signedInOperator(app)).browser
})
afterAll(async () => {
  // Closing audits the ledger.
  await app.close()
  await world.drop()
})

const thiefAccount = { driver: 'csv', holder: 'Mallory', account: 'DE89 3704 0044 0532 0130 00' }
const read = async <T>(response: Promise<Response>): Promise<T> => {
  const answer = await response
  expect(answer.status).toBe(200)
  return (await answer.json()) as T
}
/** The people with a mail about this hoster. */
const mailedFor = (hosterId: string) =>
  smtp.sink.mails
    .filter(({ source }) => source.replaceAll('=\n', '').includes(`/h/${hosterId}/earnings`))
    .map(({ to }) => to)

/** A hoster with 4 USD past the hold, two owners, and a member for billing. */
async function hosterWithBilling() {
  await world.pool.query('UPDATE hoster SET payout_frozen_at = now()')
  const hosterId = await world.addHoster()
  const customerId = await world.addCustomer(6n * USD)
  for (let n = 0; n < 5; n++) await world.charge(customerId, hosterId, Date.now() - 40 * DAY_MS, USD)
  const owners = [await signedInHoster(app, hosterId), await signedInHoster(app, hosterId)] as const
  const billing = await signedInHoster(app, hosterId, 'billing')
  const { destination } = await readPayoutAccount(world.pool, hosterId)
  const name = (account = thiefAccount.account) =>
    read<PayoutAccountShown>(billing.browser.post(`hosters/${hosterId}/payout-account`, { ...thiefAccount, account }))
  const stop = (browser: BrowserClient, id: string) => browser.post(`hosters/${hosterId}/payout-changes/${id}/stop`)
  return { hosterId, owners, billing, destination, name, stop }
}

test('another payout account waits 72 hours, and batches go to the account before it', async () => {
  const { hosterId, owners, name, destination } = await hosterWithBilling()
  const { account, changes } = await name()
  expect(account).toBe(`…${destination!.slice(-4)}`)
  expect(changes).toMatchObject([{ kind: 'account', account: '…3000', holder: 'Mallory', state: 'ready' }])
  const waits = Date.parse(changes[0]!.effective_at) - Date.parse(changes[0]!.requested_at)
  expect(waits).toBe(72 * HOUR_MS)
  // Sending the same account again neither shortens nor restarts the wait.
  expect((await name()).changes).toEqual(changes)
  const { batch } = await read<PreparedBatchShown>(operator.post('operator/payouts', { driver: 'csv' }))
  expect(batch!.data).toMatchObject([{ hoster_id: hosterId, account: destination, holder: 'A Hoster' }])
  await vi.waitFor(
    () => expect([...new Set(mailedFor(hosterId))].sort()).toEqual(owners.map(({ email }) => email).sort()),
    90_000,
  )
  await operator.post(`operator/payouts/${batch!.id}/cancel`)

  await applyPayoutChanges(world.pool, Date.parse(changes[0]!.effective_at) - 1)
  expect((await readPayoutAccount(world.pool, hosterId)).destination).toBe(destination)
  await world.prepare(Date.parse(changes[0]!.effective_at))
  const [payout] = await payoutsOfHoster(world.pool, hosterId, { limit: 1, after: null })
  expect(payout).toMatchObject({ destination: 'DE89370400440532013000', holder: 'Mallory' })
})

test('an owner stops a change, a member for billing does not, and operators see it', async () => {
  const { hosterId, owners, billing, destination, name, stop } = await hosterWithBilling()
  const [change] = (await name()).changes
  expect(await read(operator.get(`operator/hosters/${hosterId}/earnings`))).toMatchObject({
    payout_changes: [{ id: change!.id, requested_by: billing.email }],
  })
  expect(await readError(await stop(billing.browser, change!.id))).toMatchObject({ code: 'role_not_allowed' })
  // The mail names a page behind the sign-in. A session that is not confirmed may stop a theft.
  await world.pool.query("UPDATE person_session SET confirmed_at = now() - interval '1 hour' WHERE person_id = $1", [
    owners[1].personId,
  ])
  expect(await read(stop(owners[1].browser, change!.id))).toMatchObject({ changes: [] })
  expect((await stop(owners[0].browser, change!.id)).status).toBe(404)
  await applyPayoutChanges(world.pool, Date.now() + 80 * HOUR_MS)
  expect((await readPayoutAccount(world.pool, hosterId)).destination).toBe(destination)
  const { rows } = await world.pool.query('SELECT action FROM audit_entry WHERE subject = $1 ORDER BY entry_id', [
    hosterId,
  ])
  expect(rows.slice(-2)).toEqual([
    { action: 'hoster.payout_change_requested' },
    { action: 'hoster.payout_change_stopped' },
  ])
})

test('the change of a member who was removed does not take effect', async () => {
  const { hosterId, billing, destination, name } = await hosterWithBilling()
  await name()
  await changeHosterMember(world.pool, hosterId, ({ personId }) => personId === billing.personId, {
    role: null,
    heirId: null,
  })
  await applyPayoutChanges(world.pool, Date.now() + 80 * HOUR_MS)
  expect((await readPayoutAccount(world.pool, hosterId)).destination).toBe(destination)
  expect(await listPayoutChanges(world.pool, hosterId)).toEqual([])
})

test('another customer for earnings waits too, the first one included', async () => {
  const { hosterId, billing } = await hosterWithBilling()
  const { rows } = await world.pool.query<{ id: string }>(
    'SELECT customer_id AS id FROM membership WHERE person_id = $1',
    [billing.personId],
  )
  const own = rows[0]!.id
  const shown = await read<PayoutAccountShown>(
    billing.browser.post(`hosters/${hosterId}/payout-customer`, { customer_id: own }),
  )
  expect(shown).toMatchObject({ customer_id: null, changes: [{ kind: 'customer', customer_id: own }] })
  const move = () =>
    moveEarnings(world.pool, { moveId: crypto.randomUUID(), hosterId, amountNanos: null }, commandLine, Date.now())
  expect(await move()).toMatchObject({ verdict: 'no_customer' })
  await applyPayoutChanges(world.pool, Date.parse(shown.changes[0]!.effective_at))
  expect(await move()).toMatchObject({ verdict: 'moved', customer: own })
})

test('an owner whom a mail server does not reach is mailed later', async () => {
  const { hosterId, owners, name } = await hosterWithBilling()
  smtp.sink.refuse = true
  await name('ACC0000001')
  await expect.poll(() => owners.map(({ email }) => smtp.sink.refused.includes(email))).toEqual([true, true])
  expect(mailedFor(hosterId)).toEqual([])
  smtp.sink.refuse = false
  // Any later change of any hoster mails what is left, as the job does each minute.
  await (await hosterWithBilling()).name()
  await vi.waitFor(
    () => expect([...new Set(mailedFor(hosterId))].sort()).toEqual(owners.map(({ email }) => email).sort()),
    90_000,
  )
})

test('owners get no mail about an account that was refused at once', async () => {
  const [other, refused] = [await hosterWithBilling(), await hosterWithBilling()]
  await other.name('ACC0000002')
  expect((await refused.name('ACC0000002')).changes).toMatchObject([{ state: 'refused' }])
  await expect.poll(() => mailedFor(other.hosterId).length, { timeout: 90_000 }).toBeGreaterThanOrEqual(2)
  // What the gateway has not mailed until now, this mails.
  const late: string[] = []
  const mail = createPeopleMail({
    async send({ text }) {
      late.push(text)
      return { outcome: 'delivered' }
    },
    baseUrl: () => '',
  })
  await createChangeNotices({ pool: world.pool, clock: systemClock, mail, log: { warn() {} } }).send()
  expect(late.filter(text => text.includes(refused.hosterId))).toEqual([])
  expect(mailedFor(refused.hosterId)).toEqual([])
})
