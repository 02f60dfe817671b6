import { expect, test } from 'vitest'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import type { LimitsReport, UsageShares } from '../../src/wire/api/console-data.ts'
import type { LiveState } from '../../src/wire/api/live.ts'
import type { MemberShown } from '../../src/wire/api/people.ts'
import { testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))

async function readJson<T>(response: Response | Promise<Response>): Promise<T> {
  const text = await (await response).text()
  return JSON.parse(text) as T
}

/** A customer with an owner and a developer that made a key. */
async function team() {
  const { customerId } = await app.customer({ creditNanos: 50_000_000_000n })
  const [owner, bob] = [await signedInMember(app, customerId), await signedInMember(app, customerId, 'developer')]
  const path = `customers/${customerId}`
  const people = await readJson<{ data: MemberShown[] }>(owner.browser.get(`${path}/people`))
  const { id } = people.data.find(({ email }) => email === bob.email)!
  const { key } = await readJson<{ key: string }>(bob.browser.post(`${path}/keys`, { name: 'bot', scopes: ['manage'] }))
  const limit = (spend_limit_usd: number | null, limit_reset?: string) =>
    owner.browser.send('PATCH', `${path}/people/${id}`, { spend_limit_usd, ...(limit_reset && { limit_reset }) })
  return { customerId, path, owner: owner.browser, bob: bob.browser, bobId: id, bobEmail: bob.email, key, limit }
}

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }

const chat = (key: string, headers: Record<string, string> = {}, max_tokens = 100) =>
  fetch(`${app.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ ...hello, max_tokens }),
  })

/** Sends until an answer has another status: a change reaches the node within two seconds. */
const chatUntil = (key: string, status: number) =>
  expect.poll(async () => (await chat(key)).status, { timeout: 5_000 }).toBe(status)

test('a member over the limit learns which limit it is, when it resets and that an owner can raise it; then requests run', async () => {
  const { limit, key, bob, bobEmail, path, owner, bobId } = await team()
  upstream.always(answer({ usage: usageOf(50, 50) }))
  expect(await readJson(limit(0.0004, 'monthly'))).toMatchObject({
    id: bobId,
    limit_usd: 0.0004,
    limit_reset: 'monthly',
    spent_usd: 0,
  })
  await chatUntil(key, 402)
  const refused = await chat(key)
  expect(refused.headers.get('x-should-retry')).toBe('false')
  const error = await readError(refused)
  const now = new Date()
  const nextMonth = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)).toISOString()
  expect(error).toMatchObject({
    status: 402,
    type: 'insufficient_quota',
    code: 'member_spend_limit_reached',
    limit_usd: 0.0004,
    used_usd: expect.any(Number),
    reset_at: nextMonth,
    affordable_max_tokens: expect.any(Number),
  })
  expect(error.message).toContain(bobEmail)
  expect(error.message).toContain(`resets at ${nextMonth}. An owner of the account can raise it`)
  const used = (error as unknown as { used_usd: number }).used_usd
  expect(used).toBeGreaterThan(0)
  expect(await readJson(fetch(`${app.url}/v1/key`, { headers: { authorization: `Bearer ${key}` } }))).toMatchObject({
    limit_usd: null,
    member_limit: { email: bobEmail, limit_usd: 0.0004, limit_reset: 'monthly', spent_usd: used, resets_at: nextMonth },
  })
  expect((await readJson<LimitsReport>(bob.get(`${path}/limits`))).member).toEqual({
    limit_usd: 0.0004,
    limit_reset: 'monthly',
    spent_usd: used,
    resets_at: nextMonth,
  })
  expect((await readJson<LimitsReport>(owner.get(`${path}/limits`))).member).toBeNull()
  expect((await limit(0.01)).status).toBe(200)
  await chatUntil(key, 200)
  expect(await readJson(limit(null))).toMatchObject({ limit_usd: null, limit_reset: 'none', spent_usd: null })
  expect((await audit(app.database.pool)).filter(({ violations }) => violations > 0)).toEqual([])
})

test('a key that a key of the member made is within the limit of the member', async () => {
  const { limit, key, bobEmail } = await team()
  await limit(0.000001)
  const made = await readJson<{ key: string; made_by: string }>(
    fetch(`${app.url}/v1/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'a way around' }),
    }),
  )
  expect(made.made_by).toBe(bobEmail)
  await chatUntil(made.key, 402)
  expect(await readError(await chat(made.key))).toMatchObject({ code: 'member_spend_limit_reached', used_usd: 0 })
})

test('only owners change limits, and the body is checked', async () => {
  const { bob, owner, path, bobId, limit } = await team()
  const asBob = await bob.send('PATCH', `${path}/people/${bobId}`, { spend_limit_usd: 1_000 })
  expect(await readError(asBob)).toMatchObject({ status: 403, code: 'role_not_allowed' })
  for (const body of [
    {},
    { spend_limit_usd: -1 },
    { spend_limit_usd: 'ten' },
    { limit_reset: 'monthly' },
    { limit: 1 },
  ]) {
    expect((await owner.send('PATCH', `${path}/people/${bobId}`, body)).status).toBe(400)
  }
  expect((await limit(5, 'weekly')).status).toBe(200)
  const { rows } = await app.database.pool.query(
    `SELECT action, detail FROM audit_entry WHERE action LIKE 'member.limit%' ORDER BY entry_id DESC LIMIT 1`,
  )
  expect(rows).toEqual([{ action: 'member.limit_changed', detail: { from: 'none', to: '5.00 USD weekly' } }])
})

test('the topic budgets of an open page grows with each change of a limit', async () => {
  const { owner, path, limit, bob } = await team()
  const versions = async () => {
    const stream = await owner.get(`${path}/live`)
    const reader = stream.body!.getReader()
    let text = ''
    while (!text.includes('\n\n') || !text.includes('data: ')) {
      const { value, done } = await reader.read()
      if (done) break
      text += new TextDecoder().decode(value)
    }
    await reader.cancel()
    return (JSON.parse(/data: (.*)/.exec(text)![1]!) as LiveState).versions
  }
  const before = await versions()
  await limit(7, 'daily')
  const after = await versions()
  expect(after.budgets).toBeGreaterThan(before.budgets)
  const { data } = await readJson<{ data: { id: string }[] }>(bob.get(`${path}/keys`))
  await bob.send('PATCH', `${path}/keys/${data[0]!.id}`, { spend_limit_usd: 3 })
  expect((await versions()).budgets).toBeGreaterThan(after.budgets)
})

test('spend is reported by member, key and label, for the team and for operators, and adds up', async () => {
  const { owner, path, key, bobEmail, bobId, customerId } = await team()
  const mine = await readJson<{ key: string }>(owner.post(`${path}/keys`, { name: 'mine', label: 'web' }))
  upstream.always(answer({ usage: usageOf(50, 50) }))
  for (const headers of [{ 'x-switchyard-label': 'bot/1' }, { 'X-Switchyard-Label': 'bot/1' }, {}])
    expect((await chat(key, headers)).status).toBe(200)
  expect((await chat(mine.key)).status).toBe(200)
  expect((await chat(mine.key, { 'x-switchyard-label': 'bot/1' })).status).toBe(200)
  const shares = (by: string) => readJson<UsageShares>(owner.get(`${path}/usage/${by}?days=1`))
  await expect.poll(async () => (await shares('keys')).totals.requests).toBe(5)
  const labels = await shares('labels')
  expect(labels.data.map(({ id, requests }) => [id, requests])).toEqual([
    ['bot/1', 3],
    ['(none)', 1],
    ['web', 1],
  ])
  const members = await shares('members')
  expect(members.data.find(({ id }) => id === bobId)).toMatchObject({ name: bobEmail, requests: 3 })
  for (const report of [labels, members]) expect(report.totals).toEqual((await shares('keys')).totals)

  const { browser: operator } = await signedInOperator(app)
  const usage = (by: string) => readJson<OperatorGroups>(operator.get(`operator/usage?by=${by}&customer=${customerId}`))
  expect((await usage('label')).groups.map(({ id, requests }) => [id, requests])).toEqual([
    ['bot/1', 3],
    ['(none)', 1],
    ['web', 1],
  ])
  expect((await usage('member')).groups.find(({ id }) => id === bobId)).toMatchObject({ name: bobEmail, requests: 3 })
  const csv = await csvOf(operator, `operator/usage/export?by=label&customer=${customerId}`)
  expect(csv).toMatch(/,bot\/1,bot\/1,,3,,,,0\.000\d+,/)
  expect(await csvOf(operator, `operator/usage/export?by=member&customer=${customerId}`)).toContain(bobEmail)

  // The keys of the playground are one line.
  await app.database.pool.query('UPDATE api_key SET is_playground = true WHERE customer_id = $1', [customerId])
  expect((await shares('keys')).data).toMatchObject([{ id: 'playground', requests: 5, is_revoked: false }])
})

interface OperatorGroups {
  readonly groups: readonly { readonly id: string; readonly name: string; readonly requests: number }[]
}

const csvOf = async (browser: BrowserClient, path: string) => (await browser.get(path)).text()

test.each(['', '-a', 'a b', 'ü', 'a'.repeat(65), '(none)'])('the label %j is refused', async label => {
  const { key } = await team()
  expect(await readError(await chat(key, { 'x-switchyard-label': encodeURI(label) }))).toMatchObject({
    status: 400,
    code: 'invalid_header',
    param: 'x-switchyard-label',
  })
})
