import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { sumPlatformDays } from '../../src/operator/platform-days.ts'
import type { CustomerDetail, CustomerPage, GrantResult } from '../../src/wire/api/operator/customers.ts'
import type { Overview } from '../../src/wire/api/operator/overview.ts'
import { testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
let operator: BrowserClient
let operatorId: string
beforeAll(async () => {
  const signedIn = await signedInOperator(app)
  operator = signedIn.browser
  operatorId = signedIn.personId
})

const read = async <T>(response: Response, status = 200): Promise<T> => {
  const text = await response.text()
  if (response.status !== status) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text) as T
}
const actions = async (customerId: string) =>
  (
    await app.database.pool.query<{ action: string; detail: object; person_id: string }>(
      'SELECT action, detail, person_id FROM audit_entry WHERE customer_id = $1 ORDER BY entry_id',
      [customerId],
    )
  ).rows
const wrongTime = (personId: string, ago: string) =>
  app.database.pool.query('UPDATE person_session SET confirmed_at = now() - $2::interval WHERE person_id = $1', [
    personId,
    ago,
  ])

test('strangers, members and auditors get no further than their role', async () => {
  const { customerId } = await app.customer()
  const { browser: member } = await signedInMember(app, customerId)
  const { browser: auditor, personId } = await signedInOperator(app)
  await app.database.pool.query("UPDATE person SET installation_role = 'auditor' WHERE person_id = $1", [personId])
  const reads = ['overview', 'customers', `customers/${customerId}`, 'grants']
  const writes: [string, string, unknown][] = [
    ['POST', 'customers', { email: 'new@example.com' }],
    ['PATCH', `customers/${customerId}`, { tier: 'scale' }],
    ['POST', `customers/${customerId}/grants`, { amount_usd: 1, reason: 'x', is_promotion: false }],
    ['POST', `customers/${customerId}/invites`, { email: 'x@example.com' }],
    ['POST', `customers/${customerId}/refunds`, { request_id: randomUUID(), reason: 'x' }],
    ['DELETE', `customers/${customerId}/keys/${randomUUID()}`, undefined],
    ['POST', `grants/${randomUUID()}/approve`, {}],
    ['POST', `grants/${randomUUID()}/reject`, {}],
  ]
  for (const path of reads) {
    expect((await auditor.get(`operator/${path}`)).status).toBe(200)
    expect(await readError(await member.get(`operator/${path}`))).toMatchObject({ code: 'role_not_allowed' })
    expect((await fetch(`${app.url}/console/api/operator/${path}`)).status).toBe(401)
  }
  for (const [method, path, body] of writes) {
    for (const browser of [auditor, member]) {
      const refused = await readError(await browser.send(method, `operator/${path}`, body))
      expect({ path, ...refused }).toMatchObject({ path, status: 403, code: 'role_not_allowed' })
    }
    const crossSite = await operator.send(method, `operator/${path}`, body, { 'sec-fetch-site': 'cross-site' })
    expect(await readError(crossSite)).toMatchObject({ code: 'cross_site_request' })
  }
  expect(await app.balanceNanos({ customerId, key: '' })).toBe(5_000_000_000n)
})

test('an operator adds, finds, limits, moves and pauses a customer, and the audit log has it all', async () => {
  const email = `Grace-${randomUUID().slice(0, 8)}@example.com`
  const made = await read<CustomerDetail>(await operator.post('operator/customers', { email, tier: 'standard' }))
  expect(made).toMatchObject({ email, tier: 'standard', state: 'active', balance_usd: 5, people: 0, keys: 0 })
  const taken = await operator.post('operator/customers', { email: email.toUpperCase() })
  expect(await readError(taken)).toMatchObject({ code: 'invalid_value', param: 'email' })
  const unknown = await operator.post('operator/customers', { email: 'else@example.com', tier: 'golden' })
  expect(await readError(unknown)).toMatchObject({ code: 'invalid_value', param: 'tier' })

  const path = `operator/customers/${made.id}`
  const changed = await read<CustomerDetail>(
    await operator.send('PATCH', path, {
      tier: 'scale',
      paused: true,
      limits: { requests_per_minute: 7, daily_spend_cap_usd: '0.5' },
    }),
  )
  expect(changed).toMatchObject({ tier: 'scale', state: 'paused' })
  expect(changed.limits.requests_per_minute).toMatchObject({ value: 7, own: 7 })
  expect(changed.limits.daily_spend_cap_usd).toMatchObject({ value: 0.5, own: 0.5 })
  const restored = await read<CustomerDetail>(
    await operator.send('PATCH', path, { paused: false, limits: { requests_per_minute: null } }),
  )
  expect(restored.limits.requests_per_minute).toMatchObject({
    own: null,
    value: restored.limits.requests_per_minute.tier,
  })
  expect(restored).toMatchObject({ state: 'active', limits: { daily_spend_cap_usd: { own: 0.5 } } })
  expect(await readError(await operator.send('PATCH', path, { balance_usd: 9 }))).toMatchObject({
    param: 'balance_usd',
  })

  await operator.get(path)
  await operator.get(`customers/${made.id}/credits/transactions`)
  await operator.get(`customers/${made.id}/usage`)
  expect(await actions(made.id)).toMatchObject([
    { action: 'customer.created', person_id: operatorId },
    {
      action: 'customer.changed',
      detail: {
        before: { tier: 'standard', paused: false, requests_per_minute: null, daily_spend_cap_usd: null },
        after: { tier: 'scale', paused: true, requests_per_minute: 7, daily_spend_cap_usd: '0.50' },
      },
    },
    { action: 'customer.changed', detail: { after: { paused: false, requests_per_minute: null } } },
    { action: 'customer.viewed', person_id: operatorId },
  ])
})

test('each look at a customer is in the audit log once, by whatever address; those of members are not', async () => {
  const { customerId } = await app.customer()
  const { browser: member } = await signedInMember(app, customerId)
  await member.get(`customers/${customerId}/credits`)
  const views = async () => (await actions(customerId)).filter(({ action }) => action === 'customer.viewed')
  expect(await views()).toEqual([])
  for (const path of ['credits', 'usage', 'keys']) {
    expect((await operator.get(`customers/${customerId}/${path}`)).status).toBe(200)
  }
  expect(await views()).toMatchObject([{ person_id: operatorId }])
})

test('the list pages without gaps and finds by address, id, member and tier', async () => {
  const { customerId } = await app.customer()
  const { email } = await signedInMember(app, customerId, 'billing')
  for (let n = 0; n < 3; n++) await app.customer()
  const seen: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = cursor === '' ? '' : `&cursor=${cursor}`
    const page: CustomerPage = await read(await operator.get(`operator/customers?limit=2${query}`))
    seen.push(...page.data.map(({ id }) => id))
    cursor = page.next_cursor
  }
  const { rows } = await app.database.pool.query<{ id: string }>(
    'SELECT customer_id AS id FROM customer WHERE deleted_at IS NULL ORDER BY created_at DESC, customer_id DESC',
  )
  expect(seen).toEqual(rows.map(({ id }) => id))
  for (const search of [customerId.slice(0, 13), email.toUpperCase(), email.slice(0, -8)]) {
    const found = await read<CustomerPage>(
      await operator.get(`operator/customers?search=${encodeURIComponent(search)}`),
    )
    expect(found.data.map(({ id }) => id)).toEqual([customerId])
  }
  for (const none of ['search=%25', 'search=_____', 'tier=nothing', 'state=deleted']) {
    expect(await read<CustomerPage>(await operator.get(`operator/customers?${none}`))).toMatchObject({ data: [] })
  }
  expect(await readError(await operator.get('operator/customers?state=odd'))).toMatchObject({ param: 'state' })
  expect(await readError(await operator.get('operator/customers?search=%00'))).toMatchObject({ param: 'search' })
})

test('a dry run changes nothing; a grant happens once per ref and moves a free customer to standard', async () => {
  const { customerId } = await app.customer({ tier: 'free', creditNanos: 0n })
  const grants = `operator/customers/${customerId}/grants`
  const order = { amount_usd: 25, reason: 'invoice 7', ref: `invoice-${randomUUID()}`, is_promotion: false }
  const dry = await read<GrantResult>(await operator.post(grants, { ...order, dry_run: true }))
  expect(dry).toMatchObject({
    state: 'granted',
    dry_run: true,
    balance_after_usd: 25,
    tier: 'free',
    tier_after: 'standard',
  })
  expect(await actions(customerId)).toEqual([])
  const done = await read<GrantResult>(await operator.post(grants, order))
  expect(done).toMatchObject({ state: 'granted', dry_run: false, balance_before_usd: 0, balance_after_usd: 25 })
  expect(await read<GrantResult>(await operator.post(grants, order))).toMatchObject({ state: 'duplicate' })
  expect(await readError(await operator.post(grants, { ...order, amount_usd: 26 }))).toMatchObject({ param: 'ref' })
  const shown = await read<CustomerDetail>(await operator.get(`operator/customers/${customerId}`))
  expect(shown).toMatchObject({ balance_usd: 25, tier: 'standard' })
  expect((await actions(customerId))[0]).toMatchObject({
    action: 'credit.granted',
    detail: { amount_usd: '25', reason: 'invoice 7', ref: order.ref, is_promotion: false },
  })
  expect(await readError(await operator.post(grants, { ...order, is_promotion: true }))).toMatchObject({ param: 'ref' })
  expect(await readError(await operator.post(grants, { amount_usd: 1, reason: 'x' }))).toMatchObject({
    code: 'missing_parameter',
    param: 'is_promotion',
  })
  for (const amount_usd of [0, -1, 'x', '1e3', 0.0000000001]) {
    expect(
      await readError(await operator.post(grants, { amount_usd, reason: 'x', is_promotion: false })),
    ).toMatchObject({
      param: 'amount_usd',
    })
  }
})

test('grants, invitations and refunds need a password typed in the last ten minutes', async () => {
  const { browser, personId } = await signedInOperator(app)
  const { customerId } = await app.customer()
  const path = `operator/customers/${customerId}`
  await wrongTime(personId, '10 minutes 1 second')
  const grant = { amount_usd: 1, reason: 'x', is_promotion: false }
  expect((await browser.post(`${path}/grants`, { ...grant, dry_run: true })).status).toBe(200)
  for (const [end, body] of [
    ['grants', grant],
    ['invites', { email: 'x@example.com' }],
    ['refunds', { request_id: randomUUID(), reason: 'x' }],
  ] as const) {
    expect(await readError(await browser.post(`${path}/${end}`, body))).toMatchObject({
      status: 403,
      code: 'confirmation_required',
    })
  }
  await wrongTime(personId, '9 minutes')
  expect((await browser.post(`${path}/grants`, grant)).status).toBe(200)
  const invite = await read<{ url: string }>(
    await browser.post(`${path}/invites`, { email: 'x@example.com', role: 'viewer' }),
  )
  expect(invite.url).toMatch(/^http:\/\/.+\/invite#.{43}$/)
})

test('above 100 USD in a day a second operator approves, where there is one', async () => {
  const { browser: asking } = await signedInOperator(app)
  const { browser: approving } = await signedInOperator(app)
  const customer = await app.customer({ creditNanos: 0n })
  const grants = `operator/customers/${customer.customerId}/grants`
  const order = (amount_usd: number, reason: string) => ({ amount_usd, reason, is_promotion: false })
  expect(await read(await asking.post(grants, order(60, 'first')))).toMatchObject({ state: 'granted' })
  const second = await read<GrantResult>(await asking.post(grants, order(40.000000001, 'second')))
  expect(second).toMatchObject({ state: 'waiting', balance_after_usd: 60 })
  const approve = `operator/grants/${second.grant_id}/approve`
  expect(await readError(await asking.post(approve))).toMatchObject({ status: 403, code: 'role_not_allowed' })
  const waiting = await read<{ data: { id: string; is_own: boolean }[] }>(await approving.get('operator/grants'))
  expect(waiting.data).toContainEqual(expect.objectContaining({ id: second.grant_id, is_own: false }))
  expect(await read(await approving.post(approve))).toEqual({ state: 'granted' })
  expect(await app.balanceNanos(customer)).toBe(100_000_000_001n)
  expect(await readError(await approving.post(approve))).toMatchObject({ status: 404 })
  const third = await read<GrantResult>(await asking.post(grants, order(500, 'third')))
  expect(await read(await asking.post(`operator/grants/${third.grant_id}/reject`))).toEqual({ state: 'rejected' })
  expect(await app.balanceNanos(customer)).toBe(100_000_000_001n)
  expect((await actions(customer.customerId)).map(({ action }) => action)).toEqual([
    'credit.granted',
    'credit.requested',
    'credit.granted',
    'credit.requested',
    'credit.rejected',
  ])
})

test('a grant that nobody paid for leaves the tier, also when a second operator approves it', async () => {
  const { browser: asking } = await signedInOperator(app)
  const { browser: approving } = await signedInOperator(app)
  const { customerId } = await app.customer({ tier: 'free', creditNanos: 0n })
  const grants = `operator/customers/${customerId}/grants`
  const order = { amount_usd: 1, reason: 'goodwill', is_promotion: true }
  expect(await read(await asking.post(grants, order))).toMatchObject({ state: 'granted', tier_after: 'free' })
  const large = await read<GrantResult>(await asking.post(grants, { ...order, amount_usd: 500 }))
  const waiting = await read<{ data: object[] }>(await approving.get('operator/grants'))
  expect(waiting.data).toContainEqual(expect.objectContaining({ id: large.grant_id, is_promotion: true }))
  await approving.post(`operator/grants/${large.grant_id}/approve`)
  const { rows } = await app.database.pool.query(
    `SELECT c.account_tier, (SELECT -sum(amount_nanos) FROM ledger_entry WHERE account_kind = 'platform_promo' AND tx_id IN (
       SELECT tx_id FROM ledger_entry WHERE account_id = c.customer_id))::bigint AS promotion
     FROM customer c WHERE c.customer_id = $1`,
    [customerId],
  )
  expect(rows).toEqual([{ account_tier: 'free', promotion: 501_000_000_000n }])
})

test('concurrent grants cannot pass the limit of one operator together', async () => {
  const { browser } = await signedInOperator(app)
  const customer = await app.customer({ creditNanos: 0n })
  const states = await Promise.all(
    Array.from({ length: 5 }, async (_, n) => {
      const order = { amount_usd: 60, reason: `part ${n}`, is_promotion: false }
      return (await read<GrantResult>(await browser.post(`operator/customers/${customer.customerId}/grants`, order)))
        .state
    }),
  )
  expect(states.toSorted()).toEqual(['granted', 'waiting', 'waiting', 'waiting', 'waiting'])
  expect(await app.balanceNanos(customer)).toBe(60_000_000_000n)
})

test('an operator revokes a leaked key and refunds a request', async () => {
  const customer = await app.customer()
  const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  await (await app.chat(customer, chat)).arrayBuffer()
  const [row] = await app.settled(customer, 1)
  const path = `operator/customers/${customer.customerId}`
  const refund = { request_id: row!.request_id, reason: 'cut off' }
  const dry = await read(await operator.post(`${path}/refunds`, { ...refund, dry_run: true }))
  expect(dry).toMatchObject({ refunded: false, would_refund: true, balance_usd: 5 })
  expect(await app.balanceNanos(customer)).toBe(5_000_000_000n - row!.cost_nanos)
  expect(await read(await operator.post(`${path}/refunds`, refund))).toMatchObject({ refunded: true, balance_usd: 5 })
  expect(await read(await operator.post(`${path}/refunds`, refund))).toMatchObject({ refunded: false })
  const other = await app.customer()
  const elsewhere = await operator.post(`operator/customers/${other.customerId}/refunds`, refund)
  expect(await readError(elsewhere)).toMatchObject({ code: 'request_not_found' })

  const { api_keys } = await read<CustomerDetail>(await operator.get(path))
  const revoked = await operator.send('DELETE', `${path}/keys/${api_keys[0]!.id}`)
  expect(revoked.status).toBe(200)
  await app.app.noticeChanges()
  expect((await app.get(customer, '/v1/credits')).status).toBe(401)
  expect((await actions(customer.customerId)).map(({ action }) => action)).toEqual([
    'request.refunded',
    'customer.viewed',
    'key.revoked',
  ])
})

test('the overview adds up what the customers were charged', async () => {
  const customer = await app.customer()
  const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  for (let n = 0; n < 3; n++) await (await app.chat(customer, chat)).arrayBuffer()
  await app.settled(customer, 3)
  await transaction(app.database.pool, sql => sumPlatformDays(sql, Date.now()))
  const { rows } = await app.database.pool.query<{ cost: number; fee: number; requests: number; credit: number }>(
    `SELECT sum(cost_nanos)::float8 / 1e9 AS cost, sum(fee_nanos)::float8 / 1e9 AS fee, count(*)::int AS requests,
       (SELECT sum(amount_nanos) FROM ledger_entry WHERE account_kind = 'customer')::float8 / 1e9 AS credit
     FROM usage_event`,
  )
  const overview = await read<Overview>(await operator.get('operator/overview'))
  expect(overview.today).toMatchObject({
    charged_usd: rows[0]!.cost,
    revenue_usd: rows[0]!.fee,
    requests: rows[0]!.requests,
    failed: 0,
  })
  expect(overview.customer_credit_usd).toBeCloseTo(rows[0]!.credit, 9)
  expect(overview.nodes).toMatchObject([{ state: 'alive' }])
  expect(overview.servers).toMatchObject([{ model: 'test-model', provider: 'local' }])
  expect(overview.alarms.filter(({ severity }) => severity === 'danger')).toEqual([])
})
