import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import type {
  ConfirmedPayment,
  MadeVouchers,
  OperatorPayment,
  OperatorPayments,
} from '../../src/wire/api/operator/payments.ts'
import type { PaymentOptions, TopUp, TopUpList } from '../../src/wire/api/payments.ts'
import { testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl)],
  yaml: 'payments:\n  manual:\n    instructions: Send {amount} to the account 12-34 and quote {reference}.\n',
}))
let operator: BrowserClient
beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
})

const read = async <T>(response: Response, status = 200): Promise<T> => {
  const text = await response.text()
  if (response.status !== status) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text) as T
}

async function payer(options: Parameters<typeof app.customer>[0] = { creditNanos: 0n, tier: 'free' }) {
  const customer = await app.customer(options)
  const { browser } = await signedInMember(app, customer.customerId, 'billing')
  const path = `customers/${customer.customerId}`
  return {
    ...customer,
    browser,
    path,
    start: (amount_usd: unknown, key: string = randomUUID(), more: object = {}) =>
      browser.send('POST', `${path}/top-ups`, { amount_usd, ...more }, { 'idempotency-key': key }),
    redeem: (code: string) => browser.post(`${path}/vouchers/redeem`, { code }),
  }
}
const confirm = (id: string, by = operator) => by.post(`operator/payments/${id}/confirm`)
const tierOf = async (customerId: string) =>
  (
    await app.database.pool.query<{ tier: string }>(
      'SELECT account_tier AS tier FROM customer WHERE customer_id = $1',
      [customerId],
    )
  ).rows[0]!.tier

test('a manual top-up shows what to do, gives nothing by itself, and its credit once it is confirmed, once', async () => {
  const someone = await payer()
  const { path, browser, customerId } = someone
  expect(await read<PaymentOptions>(await browser.get(`${path}/payment-options`))).toEqual({
    drivers: ['manual', 'voucher'],
    min_usd: 5,
    max_usd: 1000,
    debt_usd: 0,
    can_save_method: false,
  })
  const started = await read<TopUp>(await someone.start(25))
  expect(started).toMatchObject({ driver: 'manual', state: 'open', amount_usd: 25, redirect_url: null, paid_at: null })
  expect(started.instructions).toBe(`Send 25.00 USD to the account 12-34 and quote ${started.reference}.`)
  expect(await app.balanceNanos(someone)).toBe(0n)
  const answers = await Promise.all([confirm(started.id), confirm(started.id), confirm(started.id)])
  const results = await Promise.all(answers.map(async answer => (await read<ConfirmedPayment>(answer)).result))
  expect(results.sort()).toEqual(['paid', 'paid_before', 'paid_before'])
  expect(await app.balanceNanos(someone)).toBe(25_000_000_000n)
  expect(await read<TopUp>(await browser.get(`${path}/top-ups/${started.id}`))).toMatchObject({
    state: 'paid',
    instructions: null,
    paid_at: expect.any(String),
  })
  const statement = (await (await browser.get(`${path}/credits/transactions`)).json()) as { data: object[] }
  expect(statement.data).toMatchObject([{ kind: 'payment', amount_usd: 25, reason: `payment ${started.reference}` }])
  expect(await tierOf(customerId)).toBe('standard')
})

test('a repeated request with the same Idempotency-Key starts one top-up; another amount is refused', async () => {
  const someone = await payer()
  const key = randomUUID()
  const answers = await Promise.all([1, 2, 3, 4].map(() => someone.start(10, key)))
  const ids = await Promise.all(answers.map(async answer => (await read<TopUp>(answer)).id))
  expect(new Set(ids).size).toBe(1)
  expect(await readError(await someone.start(11, key))).toMatchObject({ status: 422, code: 'idempotency_key_reused' })
  const without = await someone.browser.post(`${someone.path}/top-ups`, { amount_usd: 10 })
  expect(await readError(without)).toMatchObject({ code: 'missing_parameter', param: 'Idempotency-Key' })
  const listed = await read<TopUpList>(await someone.browser.get(`${someone.path}/top-ups`))
  expect(listed.data.map(({ id }) => id)).toEqual([ids[0]])
})

test('amounts outside the limits, parts of a cent and unknown fields are refused', async () => {
  const someone = await payer()
  for (const amount of [4.99, 1000.01, 10.001, 0, -5, 'x', null]) {
    expect(await readError(await someone.start(amount))).toMatchObject({ status: 400, param: 'amount_usd' })
  }
  expect(await readError(await someone.start(10, randomUUID(), { driver: 'stripe' }))).toMatchObject({
    param: 'driver',
  })
  // Mass assignment.
  for (const field of ['state', 'customer_id', 'payment_id']) {
    expect(await readError(await someone.start(10, randomUUID(), { [field]: 'paid' }))).toMatchObject({ param: field })
  }
  expect((await read<TopUpList>(await someone.browser.get(`${someone.path}/top-ups`))).data).toEqual([])
})

test('a cancelled top-up is still booked when the money arrives', async () => {
  const someone = await payer()
  const { id } = await read<TopUp>(await someone.start(10))
  const cancelled = await read<TopUp>(await someone.browser.post(`${someone.path}/top-ups/${id}/cancel`))
  expect(cancelled).toMatchObject({ state: 'cancelled', instructions: null })
  expect(await read<ConfirmedPayment>(await confirm(id))).toMatchObject({ result: 'paid', payment: { state: 'paid' } })
  expect(await app.balanceNanos(someone)).toBe(10_000_000_000n)
})

test('only owners and billing see and start payments, and nobody those of another customer', async () => {
  const { customerId } = await app.customer()
  const stranger = await payer()
  const { id } = await read<TopUp>(await stranger.start(10))
  for (const role of ['developer', 'viewer', 'owner', 'billing'] as const) {
    const { browser } = await signedInMember(app, customerId, role)
    const status = role === 'owner' || role === 'billing' ? 200 : 403
    const path = `customers/${customerId}`
    expect((await browser.get(`${path}/top-ups`)).status).toBe(status)
    const body = { amount_usd: 10 }
    const headers = { 'idempotency-key': randomUUID() }
    expect((await browser.send('POST', `${path}/top-ups`, body, headers)).status).toBe(status)
    expect((await browser.get(`${path}/top-ups/${id}`)).status).toBe(status === 200 ? 404 : 403)
    expect((await browser.get('operator/payments')).status).toBe(403)
    expect((await browser.post(`operator/payments/${id}/confirm`)).status).toBe(403)
    expect((await browser.post('operator/vouchers', { amount_usd: 10 })).status).toBe(403)
  }
  // An operator who is no member reads, and starts nothing.
  expect((await operator.get(`customers/${customerId}/top-ups`)).status).toBe(200)
  expect((await operator.post(`customers/${customerId}/vouchers/redeem`, { code: 'x' })).status).toBe(403)
})

test('a voucher gives its credit once, to the first customer, and its code is stored as a hash', async () => {
  const [one, other] = [await payer(), await payer()]
  const made = await read<MadeVouchers>(
    await operator.post('operator/vouchers', { amount_usd: '7.5', count: 2, note: 'fair', is_promotion: false }),
  )
  const [{ code, id }, unused] = made.data as [MadeVouchers['data'][number], MadeVouchers['data'][number]]
  expect(code).toMatch(/^([0-9A-HJKMNP-TV-Z]{5}-){4}[0-9A-HJKMNP-TV-Z]{5}$/)
  const typed = code.toLowerCase().replaceAll('-', ' ').replaceAll('0', 'o').replaceAll('1', 'i')
  const answers = await Promise.all([one.redeem(typed), other.redeem(code), one.redeem(code), other.redeem(code)])
  const statuses = answers.map(({ status }) => status).sort()
  expect(statuses).toEqual([200, 200, 404, 404])
  const balances = [await app.balanceNanos(one), await app.balanceNanos(other)]
  expect(balances.toSorted()).toEqual([0n, 7_500_000_000n])
  const winner = balances[0] === 0n ? other : one
  const loser = winner === one ? other : one
  expect(await readError(await loser.redeem(code))).toMatchObject({ status: 404, code: 'voucher_not_valid' })
  expect(await tierOf(winner.customerId)).toBe('standard')
  const listed = (await read<TopUpList>(await winner.browser.get(`${winner.path}/top-ups`))).data
  expect(listed).toMatchObject([{ driver: 'voucher', state: 'paid', amount_usd: 7.5 }])
  const { rows } = await app.database.pool.query<{ row: string }>('SELECT voucher::text AS row FROM voucher')
  for (const { row } of rows) expect(row).not.toContain(code)
  const vouchers = await read<{ data: object[] }>(await operator.get('operator/vouchers'))
  expect(vouchers.data.find(each => (each as { id: string }).id === id)).toMatchObject({
    state: 'redeemed',
    customer_id: winner.customerId,
    is_promotion: false,
    note: 'fair',
  })
  expect((await operator.send('DELETE', `operator/vouchers/${unused.id}`)).status).toBe(200)
  expect(await readError(await winner.redeem(unused.code))).toMatchObject({ code: 'voucher_not_valid' })
  expect((await operator.send('DELETE', `operator/vouchers/${id}`)).status).toBe(404)
})

test('the credit of a voucher is promotion unless it was sold, and leaves the tier', async () => {
  const someone = await payer()
  const made = await read<MadeVouchers>(await operator.post('operator/vouchers', { amount_usd: 5 }))
  expect((await someone.redeem(made.data[0]!.code)).status).toBe(200)
  expect(await tierOf(someone.customerId)).toBe('free')
  const { data } = await read<{ data: object[] }>(await operator.get('operator/vouchers'))
  expect(data[0]).toMatchObject({ id: made.data[0]!.id, is_promotion: true })
})

test('an expired voucher gives nothing', async () => {
  const someone = await payer()
  const made = await read<MadeVouchers>(await operator.post('operator/vouchers', { amount_usd: 5, expires_in_days: 1 }))
  await app.database.pool.query("UPDATE voucher SET expires_at = now() - interval '1 second' WHERE voucher_id = $1", [
    made.data[0]!.id,
  ])
  expect((await readError(await someone.redeem(made.data[0]!.code))).message).toContain('expired')
  expect(await app.balanceNanos(someone)).toBe(0n)
})

test('wrong codes slow down further tries, and not those of others on the same machine', async () => {
  const someone = await payer()
  for (let n = 0; n < 6; n++) {
    expect((await readError(await someone.redeem(`wrong ${n}`))).code).toBe('voucher_not_valid')
  }
  const slowed = await readError(await someone.redeem('wrong again'))
  expect(slowed).toMatchObject({ status: 429, code: 'too_many_attempts' })
  expect((await readError(await (await payer()).redeem('wrong'))).code).toBe('voucher_not_valid')
})

test('a chargeback takes spent credit as debt, and one that was won gives the same back', async () => {
  const someone = await payer()
  const { id } = await read<TopUp>(await someone.start(20))
  await confirm(id)
  // As if 15 USD were spent.
  const made = await read<TopUp>(await someone.start(5))
  await confirm(made.id)
  const spentBack = await operator.post(`operator/payments/${made.id}/refunds`, { reason: 'sent back' })
  expect(await read<OperatorPayment>(spentBack)).toMatchObject({
    reversed_usd: 5,
    reversals: [{ kind: 'refund', state: 'done' }],
  })
  const again = await operator.post(`operator/payments/${made.id}/refunds`, { amount_usd: 1, reason: 'twice' })
  expect(await readError(again)).toMatchObject({ param: 'amount_usd' })
  const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  await (await app.chat(someone, chat)).arrayBuffer()
  const [row] = await app.settled(someone, 1)
  const spent = row!.cost_nanos as bigint
  const whole = await operator.post(`operator/payments/${id}/refunds`, { reason: 'sent back' })
  expect(await readError(whole)).toMatchObject({ param: 'amount_usd' })
  const disputed = await read<OperatorPayment>(
    await operator.post(`operator/payments/${id}/refunds`, { reason: 'bank took it', is_chargeback: true }),
  )
  expect(disputed).toMatchObject({ reversed_usd: 20, reversals: [{ kind: 'dispute', taken_usd: 20 }] })
  const options = await read<PaymentOptions>(await someone.browser.get(`${someone.path}/payment-options`))
  expect(BigInt(Math.round(options.debt_usd * 1e9))).toBe(spent)
  expect(await readError(await app.chat(someone, chat))).toMatchObject({ status: 402, code: 'account_in_debt' })
  const won = `operator/reversals/${disputed.reversals[0]!.id}/return`
  expect((await operator.post(won)).status).toBe(200)
  expect((await operator.post(won)).status).toBe(404)
  expect(await app.balanceNanos(someone)).toBe(20_000_000_000n - spent)
  expect((await app.chat(someone, chat)).status).toBe(200)
})

test('large manual payments need a second operator; vouchers have the same limit', async () => {
  const someone = await payer()
  const { id } = await read<TopUp>(await someone.start(500))
  const { browser: second } = await signedInOperator(app)
  expect(await read<ConfirmedPayment>(await confirm(id))).toMatchObject({
    result: 'waiting',
    payment: { state: 'open' },
  })
  expect(await read<ConfirmedPayment>(await confirm(id))).toMatchObject({ result: 'waiting' })
  expect(await app.balanceNanos(someone)).toBe(0n)
  expect(await read<ConfirmedPayment>(await confirm(id, second))).toMatchObject({ result: 'paid' })
  expect(await app.balanceNanos(someone)).toBe(500_000_000_000n)
  expect((await second.post('operator/vouchers', { amount_usd: 50, count: 2 })).status).toBe(200)
  const above = await second.post('operator/vouchers', { amount_usd: 1 })
  expect(await readError(above)).toMatchObject({ param: 'amount_usd' })
})

// Went wrong: a grant did not count the payments that its operator had confirmed, so 100 USD of each passed.
test('payments and grants of one operator to one customer share the limit, in either order', async () => {
  const grant = (customerId: string, amount_usd: number) =>
    operator
      .post(`operator/customers/${customerId}/grants`, { amount_usd, reason: 'thanks', is_promotion: false })
      .then(response => read<{ state: string }>(response))
  const first = await payer()
  const { id } = await read<TopUp>(await first.start(100))
  expect(await read<ConfirmedPayment>(await confirm(id))).toMatchObject({ result: 'paid' })
  expect(await grant(first.customerId, 1)).toMatchObject({ state: 'waiting' })
  const second = await payer()
  expect(await grant(second.customerId, 100)).toMatchObject({ state: 'granted' })
  const { id: other } = await read<TopUp>(await second.start(10))
  expect(await read<ConfirmedPayment>(await confirm(other))).toMatchObject({ result: 'waiting' })
})

test('vouchers that a customer redeemed count in the limit of their operator', async () => {
  const { browser: generous } = await signedInOperator(app)
  const someone = await payer()
  const made = await read<MadeVouchers>(await generous.post('operator/vouchers', { amount_usd: 100 }))
  expect((await someone.redeem(made.data[0]!.code)).status).toBe(200)
  const order = { amount_usd: 1, reason: 'thanks', is_promotion: false }
  const asked = await generous.post(`operator/customers/${someone.customerId}/grants`, order)
  expect(await read<{ state: string }>(asked)).toMatchObject({ state: 'waiting' })
})

test('a grant that waits is not approved for a customer that was deleted meanwhile', async () => {
  const { customerId } = await payer()
  const order = { amount_usd: 150, reason: 'thanks', is_promotion: false }
  const asked = await operator.post(`operator/customers/${customerId}/grants`, order)
  const { grant_id } = await read<{ grant_id: string }>(asked)
  await app.database.pool.query('UPDATE customer SET deleted_at = now() WHERE customer_id = $1', [customerId])
  const { browser: second } = await signedInOperator(app)
  const refused = await second.post(`operator/grants/${grant_id}/approve`, {})
  expect(await readError(refused)).toMatchObject({ code: 'customer_not_found' })
  expect((await second.post(`operator/grants/${grant_id}/reject`, {})).status).toBe(200)
})

test('operators filter payments and page without gaps; changes are in the audit log and need a confirmation', async () => {
  const someone = await payer()
  const ids: string[] = []
  for (let n = 0; n < 3; n++) ids.push((await read<TopUp>(await someone.start(10))).id)
  await confirm(ids[0]!)
  const seen: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: string = `customer=${someone.customerId}&limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`
    const page: OperatorPayments = await read(await operator.get(`operator/payments?${query}`))
    seen.push(...page.data.map(({ id }) => id))
    cursor = page.next_cursor
  }
  expect(seen).toEqual(ids.toReversed())
  const open = await read<OperatorPayments>(
    await operator.get(`operator/payments?customer=${someone.customerId}&state=open`),
  )
  expect(open.data).toHaveLength(2)
  const { rows } = await app.database.pool.query('SELECT action FROM audit_entry WHERE subject = $1', [ids[0]])
  expect(rows).toEqual([{ action: 'payment.started' }, { action: 'payment.confirmed' }])
  const { browser: stale, personId } = await signedInOperator(app)
  await app.database.pool.query(
    "UPDATE person_session SET confirmed_at = now() - interval '11 minutes' WHERE person_id = $1",
    [personId],
  )
  expect(await readError(await confirm(ids[1]!, stale))).toMatchObject({ code: 'confirmation_required' })
})

test('open pages notice payments', async () => {
  const someone = await payer()
  const version = async () =>
    (
      await app.database.pool.query<{ version: bigint }>(
        "SELECT version FROM customer_change WHERE customer_id = $1 AND topic = 'payments'",
        [someone.customerId],
      )
    ).rows[0]?.version ?? 0n
  const before = await version()
  const { id } = await read<TopUp>(await someone.start(10))
  const started = await version()
  expect(started).toBeGreaterThan(before)
  await confirm(id)
  expect(await version()).toBeGreaterThan(started)
})
