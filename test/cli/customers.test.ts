import { describe, expect, test } from 'vitest'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { useCli } from './use-cli.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
const cli = useCli({
  get connection() {
    return gateway.database.connection
  },
})
const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 }

/** Runs a command that must succeed. Returns its JSON. */
async function json(...args: string[]) {
  const { code, stdout, stderr } = await cli.run([...args, '--json'])
  expect(code, stderr).toBe(0)
  await gateway.app.noticeChanges()
  return JSON.parse(stdout)
}

/** Adds a customer with a key, over the command line. */
async function addCustomer(email: string) {
  const { customer_id } = await json('customer', 'add', email, '--tier', 'standard')
  const { key, key_id } = await json('key', 'issue', email, '--name', 'laptop')
  return { customerId: customer_id as string, key: key as string, keyId: key_id as string, email }
}

const statusOf = async (caller: { customerId: string; key: string }) => (await gateway.chat(caller, hello)).status
const violations = async () => (await audit(gateway.database.pool)).filter(({ violations }) => violations > 0)

describe('customer', () => {
  test('disable refuses the keys until enable', async () => {
    const ada = await addCustomer('ada@example.com')
    expect(await statusOf(ada)).toBe(200)
    expect(await json('customer', 'disable', ada.email)).toMatchObject({ disabled: true, changed: true })
    expect(await json('customer', 'disable', ada.email)).toMatchObject({ disabled: true, changed: false })
    expect(await readError(await gateway.chat(ada, hello))).toMatchObject({ status: 401, code: 'invalid_api_key' })
    expect(await json('customer', 'show', ada.email)).toMatchObject({
      state: 'disabled',
      keys: [{ state: 'disabled' }],
    })
    expect(await json('customer', 'enable', ada.customerId)).toMatchObject({ disabled: false, changed: true })
    expect(await statusOf(ada)).toBe(200)
  })

  test('delete revokes the keys, frees the e-mail address and keeps the money', async () => {
    const bob = await addCustomer('bob@example.com')
    upstream.always(answer({ usage: usageOf(50, 50) }))
    expect(await statusOf(bob)).toBe(200)
    await json('alert', 'add', bob.email, 'daily_spend', '--email')
    const refused = await cli.run(['customer', 'delete', bob.email])
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('Add --yes to confirm.') })
    const balance = () => json('customer', 'show', bob.customerId).then(shown => shown.balance_usd)
    await expect.poll(balance).toBe('4.99985')

    const done = { customer_id: bob.customerId, deleted: true, revoked_keys: 1, balance_usd: '4.99985' }
    expect(await json('customer', 'delete', bob.email, '--yes')).toEqual(done)
    expect(await statusOf(bob)).toBe(401)
    const { rows: rules } = await gateway.database.pool.query('SELECT target FROM alert_rule WHERE customer_id = $1', [
      bob.customerId,
    ])
    expect(rules).toEqual([{ target: 'deleted' }])
    const listed = (await json('customer', 'list')) as { customer_id: string }[]
    expect(listed.map(each => each.customer_id)).not.toContain(bob.customerId)
    expect(await json('customer', 'list', '--deleted')).toContainEqual(
      expect.objectContaining({ customer_id: bob.customerId, email: null, state: 'deleted', balance_usd: '4.99985' }),
    )
    expect(await json('key', 'list')).toContainEqual(expect.objectContaining({ key_id: bob.keyId, email: null }))
    for (const args of [
      ['customer', 'list', '--deleted'],
      ['customer', 'show', bob.customerId],
      ['key', 'list'],
    ]) {
      const { stdout } = await cli.run(args)
      expect(stdout).toContain('  (deleted)  ')
      expect(stdout).not.toContain('deleted-')
    }
    expect(await json('alert', 'list')).toEqual([])
    for (const args of [
      ['customer', 'enable'],
      ['customer', 'delete', '--yes'],
      ['key', 'issue', '--name', 'x'],
    ]) {
      const again = await cli.run([...args, bob.customerId])
      expect(again).toMatchObject({ code: 1, stderr: `The customer ${bob.customerId} was deleted.\n` })
    }
    const { rows } = await gateway.database.pool.query("SELECT FROM customer WHERE email LIKE 'bob@%'")
    expect(rows).toEqual([])
    expect((await addCustomer('bob@example.com')).customerId).not.toBe(bob.customerId)
    expect(await violations()).toEqual([])
  })

  test('a customer with an operator among its members cannot be deleted', async () => {
    const { customerId } = await addCustomer('op@example.com')
    await gateway.database.pool.query(
      `WITH operator AS (
         INSERT INTO person (person_id, email, installation_role) VALUES (gen_random_uuid(), 'op@example.com', 'operator') RETURNING person_id
       ) INSERT INTO membership (customer_id, person_id, role) SELECT $1, person_id, 'owner' FROM operator`,
      [customerId],
    )
    const refused = await cli.run(['customer', 'delete', 'op@example.com', '--yes'])
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('An operator is a member') })
    expect(await json('customer', 'show', 'op@example.com')).toMatchObject({
      state: 'active',
      keys: [{ state: 'active' }],
    })
  })

  test("limits replaces the tier's limits, one by one, and gives them back", async () => {
    const eve = await addCustomer('eve@example.com')
    const limits = (...args: string[]) => json('customer', 'limits', eve.email, ...args)
    const tier = { requests_per_minute: 300, requests_per_day: 50_000, daily_spend_cap_usd: '100.00' }
    expect(await limits()).toMatchObject({ account_tier: 'standard', ...tier, own: [] })
    const own = { ...tier, requests_per_minute: 600, daily_spend_cap_usd: '0.000000001' }
    expect(await limits('--requests-per-minute', '600', '--daily-spend-cap-usd', '0.000000001')).toMatchObject({
      ...own,
      own: ['requests_per_minute', 'daily_spend_cap_usd'],
    })
    const refused = await gateway.chat(eve, hello)
    expect(refused.headers.get('x-ratelimit-limit-requests')).toBe('600')
    expect(await readError(refused)).toMatchObject({ status: 402, code: 'daily_spend_cap_reached' })
    expect(await limits('--daily-spend-cap-usd', 'tier')).toMatchObject({ own: ['requests_per_minute'] })
    expect(await statusOf(eve)).toBe(200)
    const text = (await cli.run(['customer', 'limits', eve.email])).stdout
    expect(text).toMatch(/^requests per minute +600 {2}own\nrequests per day +50000 {2}tier standard$/m)
    expect((await cli.run(['customer', 'limits', eve.email, '--requests-per-day', '0'])).code).toBe(2)
  })
})

test('customer and key commands show what was spent', async () => {
  const zoe = await addCustomer('zoe@example.com')
  const second = await json('key', 'issue', zoe.email, '--name', 'second')
  upstream.always(answer({ usage: usageOf(50, 50) }))
  expect(await statusOf(zoe)).toBe(200)
  for (const _ of [1, 2]) expect(await statusOf({ ...zoe, key: second.key })).toBe(200)
  const shown = () => json('customer', 'show', zoe.email)
  const spend = (usd: string) => ({ today_usd: usd, week_usd: usd, month_usd: usd, total_usd: usd })
  await expect.poll(shown).toMatchObject({
    spend: spend('0.00045'),
    keys: [
      { key_id: second.key_id, spend: spend('0.0003') },
      { key_id: zoe.keyId, spend: spend('0.00015') },
    ],
  })
  const customers = (await json('customer', 'list')) as { email: string }[]
  expect(customers.find(({ email }) => email === zoe.email)).toMatchObject({ spend: spend('0.00045') })
  expect(await json('key', 'list', zoe.email)).toMatchObject([{ spend: spend('0.0003') }, { spend: spend('0.00015') }])
  expect((await cli.run(['customer', 'show', zoe.email])).stdout).toMatch(/ 0\.0003 +0\.0003 .* active$/m)
})

describe('key edit', () => {
  test('changes what its options name', async () => {
    const kim = await addCustomer('kim@example.com')
    const edit = (...args: string[]) => json('key', 'edit', kim.keyId, ...args)
    expect(await edit('--limit-usd', '2.5', '--limit-reset', 'monthly', '--models', 'test-model')).toMatchObject({
      name: 'laptop',
      limit_usd: '2.50',
      limit_reset: 'monthly',
      allowed_models: ['test-model'],
    })
    expect(
      await edit('--limit-usd', '3', '--name', 'desk', '--expires', '2999-01-31', '--scope', 'manage'),
    ).toMatchObject({
      name: 'desk',
      limit_usd: '3.00',
      limit_reset: 'monthly',
      expires_at: '2999-01-31T00:00:00.000Z',
      scopes: ['manage'],
    })
    expect(await edit('--limit-usd', 'none', '--models', 'all', '--expires', 'never', '--scope', 'none')).toMatchObject(
      {
        name: 'desk',
        limit_usd: null,
        limit_reset: 'none',
        allowed_models: null,
        expires_at: null,
        scopes: [],
      },
    )
    expect(await statusOf(kim)).toBe(200)
    const defaults = ['--default', 'privacy_mode=true', '--default', 'max_cost_usd=0.5', '--default', 'tier=cheapest']
    expect(await edit(...defaults)).toMatchObject({
      defaults: { privacy_mode: true, max_cost_usd: 0.5, tier: 'cheapest' },
    })
    expect(await edit('--default', 'tier=none', '--default', 'fallback_models=a, b')).toMatchObject({
      defaults: { privacy_mode: true, max_cost_usd: 0.5, fallback_models: ['a', 'b'] },
    })
    const { stdout } = await cli.run(['key', 'list', 'kim@example.com'])
    expect(stdout).toContain('privacy_mode=true fallback_models=a,b max_cost_usd=0.5')
  })

  test('refuses a key that is revoked, and changes that contradict each other', async () => {
    const max = await addCustomer('max@example.com')
    const edit = (...args: string[]) => cli.run(['key', 'edit', max.keyId, ...args])
    expect(await edit()).toMatchObject({ code: 2, stderr: expect.stringContaining('what to change') })
    expect(await edit('--limit-reset', 'daily')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--limit-usd'),
    })
    expect(await edit('--limit-usd', '-1')).toMatchObject({ code: 2, stderr: expect.stringContaining(', or none.') })
    expect((await edit('--models', 'nope')).stderr).toContain('Warning: no server offers nope now.')
    await json('key', 'revoke', max.keyId)
    expect(await edit('--name', 'x')).toMatchObject({ code: 1, stderr: expect.stringContaining('is revoked') })
  })
})
