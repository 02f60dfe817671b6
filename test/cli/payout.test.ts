import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { applyPayoutChanges } from '../../src/money/payouts/payout-accounts.ts'
import { createPayoutWorld, DAY_MS, type PayoutWorld, USD } from '../payouts/payout-world.ts'
import { type Cli, useCli } from './use-cli.ts'

let world: PayoutWorld
let cli: Cli
let hoster: string
const PAST_MS = Date.now() - 40 * DAY_MS

beforeAll(async () => {
  world = await createPayoutWorld()
  const hosterId = await world.addHoster({ hasAccount: false })
  await world.pool.query("UPDATE hoster SET name = 'acme' WHERE hoster_id = $1", [hosterId])
  hoster = hosterId
  await world.pool.query(
    "INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url) VALUES (gen_random_uuid(), $1, 'https://acme.dev/v1')",
    [hosterId],
  )
  const customerId = await world.addCustomer(0n)
  // Earnings from signup credit could not be moved.
  await grantCredit(world.pool, { customerId, amountNanos: 100n * USD, ref: 'invoice 1', reason: 'paid' })
  for (let n = 0; n < 50; n++) await world.charge(customerId, hosterId, PAST_MS, USD + 1n, 'llama-3.3-70b')
  await world.charge(customerId, hosterId, Date.now(), USD, 'llama-3.3-70b')
})
afterAll(async () => {
  expect(await world.violations()).toEqual([])
  await world.drop()
})
cli = useCli({
  get connection() {
    return world.connection
  },
})

const json = async (...args: string[]) => JSON.parse((await cli.run(['payout', ...args, '--json'])).stdout)
const fails = async (...args: string[]) => {
  const { code, stderr } = await cli.run(['payout', ...args])
  return { code, stderr }
}

test('a hoster is paid by bank: account, prepare, approve, settle, and the statement says so', async () => {
  expect(await json('prepare')).toMatchObject({ batch_id: null, hosters: [{ name: 'acme', verdict: 'no_account' }] })
  expect(await fails('account', 'acme', '--holder', 'Acme')).toMatchObject({ code: 2 })
  const wrong = await fails('account', 'acme', '--holder', 'Acme', '--account', 'DE00 1234 5678')
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringMatching(/check digits/) })
  const iban = 'DE89 3704 0044 0532 0130 00'
  const name = () => json('account', 'acme', '--holder', 'Acme GmbH', '--account', iban)
  expect(await name()).toMatchObject({ state: null, changes: [{ kind: 'account', state: 'ready', account: '…3000' }] })
  expect(await json('account', 'acme', '--stop')).toMatchObject({ changes: [] })
  await name()
  await applyPayoutChanges(world.pool, Date.now() + 4 * DAY_MS)
  expect(await json('account', 'acme')).toMatchObject({ state: 'ready', changes: [] })

  const { batch_id, hosters } = await json('prepare')
  expect(hosters).toMatchObject([{ verdict: 'prepared', amount_usd: '40.00', payable_usd: '40.00' }])
  expect(await fails('settle', batch_id)).toMatchObject({ code: 1, stderr: expect.stringMatching(/not approved/) })
  expect(await json('approve', batch_id)).toMatchObject({ approved: true, state: 'approved' })
  const file = join(cli.directory, 'bank.csv')
  await cli.run(['payout', 'settle', batch_id, '--file', file])
  const [header, line] = (await readFile(file, 'utf8')).split('\r\n')
  expect(header).toBe('reference,holder,account,amount,currency,hoster_id')
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  const reference = line!.split(',')[0]!
  expect(line).toBe(`${reference},Acme GmbH,DE89370400440532013000,40.00,USD,${hoster}`)
  expect(await fails('settle', batch_id, '--file', file)).toMatchObject({ code: 2 })
  expect(await fails('settle', batch_id, '--paid', 'PO-NONE')).toMatchObject({ code: 1 })
  expect(await json('settle', batch_id, '--paid', reference)).toEqual([{ reference, booked: true }])
  expect(await json('settle', batch_id, '--paid', reference)).toEqual([{ reference, booked: false }])
  expect(await json('show', batch_id)).toMatchObject({ state: 'settled', data: [{ state: 'paid', paid_usd: '40.00' }] })
  expect(await json('list')).toMatchObject([{ batch_id, state: 'settled' }])
  const { stdout } = await cli.run(['payout', 'prepare'])
  expect(stdout).toContain('its earnings are in the hold period of 14 days')
  const statement = await json('statement', 'acme')
  expect(statement).toMatchObject({
    balance_usd: '0.80',
    held_usd: '0.80',
    payable_usd: '0.00',
    lines: [{ requests: 50, gross_usd: '50.00000005' }, { requests: 1 }],
    movements: [{ kind: 'payout', amount_usd: '-40.00' }],
  })
  expect((await cli.run(['payout', 'statement', 'acme', '--csv'])).stdout.split('\r\n')[0]).toMatch(/^day,model,/)
})

test('earnings become credit of the customer of a hoster, and a frozen hoster keeps them', async () => {
  expect(await fails('move', 'acme')).toMatchObject({ code: 1, stderr: expect.stringMatching(/no customer/) })
  const customerId = await world.addCustomer(0n)
  expect(await json('account', 'acme', '--customer', customerId)).toMatchObject({ changes: [{ kind: 'customer' }] })
  await applyPayoutChanges(world.pool, Date.now() + 4 * DAY_MS)
  expect(await json('account', 'acme')).toMatchObject({ customer_id: customerId })
  expect(await json('freeze', 'acme', '--reason', 'checks its answers')).toMatchObject({ frozen: true, changed: true })
  expect(await fails('move', 'acme')).toMatchObject({ code: 1, stderr: expect.stringMatching(/frozen/) })
  expect(await json('release', 'acme', '--reason', 'its answers are right')).toMatchObject({ frozen: false })
  expect(await json('move', 'acme', '--amount', '0.30')).toMatchObject({ amount_usd: '0.30', customer_id: customerId })
  expect(await fails('move', 'acme', '--amount', '5')).toMatchObject({ stderr: expect.stringMatching(/has 0\.50 USD/) })
})

test('a claw-back leaves a debt that later earnings pay first, and it can be given back', async () => {
  const taken = await json('claw-back', 'acme', '2', '--fraud', '--reason', 'answers of a smaller model')
  expect(await json('statement', 'acme')).toMatchObject({ balance_usd: '-1.50', payable_usd: '-2.30' })
  expect(await json('prepare')).toMatchObject({ batch_id: null, hosters: [{ verdict: 'below_minimum' }] })
  expect(await fails('claw-back', 'acme', '90', '--fraud', '--reason', 'x')).toMatchObject({ code: 1 })
  expect(await fails('claw-back', 'acme', '1', '--reason', 'x')).toMatchObject({ code: 2 })
  expect(await json('give-back', taken.clawback_id, '--reason', 'there was no fraud')).toMatchObject({ returned: true })
  expect(await fails('give-back', taken.clawback_id, '--reason', 'x')).toMatchObject({ code: 1 })
})

test('a person is invited to a hoster, and to a new one only with --new', async () => {
  const invite = async (...args: string[]) =>
    JSON.parse((await cli.run(['hoster', 'invite', ...args, '--json'])).stdout)
  expect(await invite('acme', 'ada@example.com', '--role', 'billing')).toMatchObject({
    hoster_id: hoster,
    is_new: false,
    role: 'billing',
    is_mailed: false,
    url: expect.stringMatching(/\/invite#[\w-]{43}$/),
  })
  const unknown = await cli.run(['hoster', 'invite', 'garage', 'bob@example.com'])
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringMatching(/no hoster garage/) })
  const made = await invite('garage', 'bob@example.com', '--new')
  expect(made).toMatchObject({ is_new: true, role: 'owner' })
  const { rows } = await world.pool.query('SELECT name, state FROM hoster WHERE hoster_id = $1', [made.hoster_id])
  expect(rows).toEqual([{ name: 'garage', state: 'applied' }])
})

test('promotional earnings of related customers are listed, and decided once', async () => {
  const hosterId = await world.addHoster()
  const related = await world.addCustomer(USD)
  await world.pool.query("INSERT INTO person (person_id, email) VALUES ($1, 'both@example.com')", [related])
  await world.pool.query("INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $1, 'owner')", [related])
  await world.pool.query("INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ($1, $2, 'owner')", [
    hosterId,
    related,
  ])
  await world.charge(related, hosterId, Date.now(), USD)
  await world.prepare(Date.now() + 40 * DAY_MS, { minNanos: USD / 2n })
  const [review] = await json('review')
  expect(review).toMatchObject({ hoster_id: hosterId, state: 'waiting', share_usd: '0.80' })
  expect(await fails('review', review.review_id)).toMatchObject({ code: 2 })
  expect(await json('review', review.review_id, '--release', 'a fair')).toMatchObject([
    { state: 'released', reason: 'a fair' },
  ])
  expect(await fails('review', review.review_id, '--withhold', 'x')).toMatchObject({ code: 1 })
})
