import { randomUUID } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { makeInviteLink } from '../../src/identity/people/links.ts'
import { addHosterMember } from '../../src/market/marketplace/hoster-members.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { applyPayoutChanges } from '../../src/money/payouts/payout-accounts.ts'
import { readPage } from '../docs/page.ts'
import { startTestApp, type TestApp } from '../harness/app.ts'
import {
  BrowserClient,
  makeOperator,
  operatorToken,
  PASSWORD,
  signedInMember,
  signedInOperator,
  tokenOf,
} from '../harness/browser-client.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { routesOf } from '../harness/routes-of.ts'
import { SoftwareAuthenticator } from '../harness/software-authenticator.ts'
import { createPayoutWorld, DAY_MS, type PayoutWorld, USD } from '../payouts/payout-world.ts'

/** Addresses that leave no entry, with the reason. A new address that changes something needs a step below, or a line here. */
const exempt: Readonly<Record<string, string>> = {
  'POST /v1/messages/count_tokens': 'reads',
  'POST /v1/responses/input_tokens': 'reads',
  'POST /v1beta/models/*': 'generates text',
  'POST /v1/alerts/:id/test': 'sends a message and changes nothing',
  'POST /v1/hoster/verification': 'asks the server of the hoster again',
  'POST confirm': 'the session notes it',
  'POST passkeys/sign-in/start': 'begins a sign-in',
  'POST passkeys/confirm/start': 'begins a confirmation',
  'POST oidc/start': 'begins a sign-in',
  'POST oidc/confirm/start': 'begins a confirmation',
  'POST identities/start': 'begins a link, which oidc/finish makes',
  'POST factors/totp/start': 'draws a secret, which factors/totp puts in use',
  'POST factors/passkeys/start': 'begins what factors/passkeys ends',
  'POST sign-up': 'mails a link',
  'POST sign-up/link': 'reads a link',
  'POST forgot': 'mails a link',
  'POST person/email': 'mails a link',
  'POST invite': 'reads an invitation',
  'POST operator/setup/mail-test': 'sends a mail to the person that asks',
  'POST operator/setup/payments-test': 'asks the payment services',
  'POST operator/provider-models': 'asks a server and changes nothing',
  'POST operator/provider-trials': 'asks a server and changes nothing',
}

/** Addresses whose entries other tests check, with the action that the test names. */
const elsewhere: Readonly<Record<string, readonly [file: string, action: string]>> = {
  'POST oidc/finish': ['test/console/oidc.test.ts', 'identity.linked'],
  'POST oidc/factor': ['test/console/oidc.test.ts', 'person.signed_in'],
  'DELETE identities/:identity_id': ['test/console/oidc.test.ts', 'identity.removed'],
  'POST verify': ['test/console/sign-up.test.ts', 'person.signed_up'],
  'POST reset': ['test/console/sign-up.test.ts', 'person.password_reset'],
  'POST person/email/confirm': ['test/console/profile.test.ts', 'person.email_changed'],
  'POST operator/providers/:name/refresh': ['test/supply/model-rules.test.ts', 'provider.models_proposed'],
  'POST person/export': ['test/console/data-protection.test.ts', 'person.exported'],
  'POST customers/:customer_id/export': ['test/console/data-protection.test.ts', 'customer.exported'],
  'POST operator/people/:person_id/export': ['test/console/data-protection.test.ts', 'person.exported'],
  'DELETE operator/people/:person_id': ['test/console/data-protection.test.ts', 'person.deleted'],
  'POST operator/customers/:customer_id/export': ['test/console/data-protection.test.ts', 'customer.exported'],
  'DELETE operator/customers/:customer_id': ['test/console/data-protection.test.ts', 'customer.deleted'],
  'POST customers/:customer_id/auto-top-up': ['test/payments/auto-top-up.test.ts', 'auto_top_up.on'],
  'DELETE customers/:customer_id/payment-methods/:method_id': [
    'test/payments/auto-top-up.test.ts',
    'payment_method.removed',
  ],
}

let world: PayoutWorld
let app: TestApp
beforeAll(async () => {
  world = await createPayoutWorld()
  app = await startTestApp({
    offers: [],
    database: world,
    yaml: `
payouts: { min_usd: 2 }
hosters: { allow_private_urls: true }
payments:
  manual:
    instructions: Quote {reference}.
`,
  })
})
afterAll(async () => {
  await app.close()
  await world.drop()
})

interface Entry {
  readonly action: string
  readonly personId: string | null
  readonly subject: string
  readonly detail: Readonly<Record<string, unknown>>
  readonly address: string | null
}

const one = async <T extends object>(statement: string, values: readonly unknown[] = []) =>
  (await world.pool.query<T>(statement, values)).rows[0]!
const done = new Set<string>()
/** What nobody may read in the log. */
const secrets = new Set<string>()

/** Who must be named: a person, or a key. */
type Actor = { readonly personId: string } | { readonly keyId: string }

/** Sends a request of a door, and checks that it left entries with these actions, by this actor. Returns the answer. */
async function change(
  door: string,
  by: Actor,
  send: () => Promise<Response>,
  ...actions: string[]
  // biome-ignore lint/suspicious/noExplicitAny: each answer has its own shape
): Promise<any> {
  const { last } = await one<{ last: number }>('SELECT coalesce(max(entry_id), 0)::int AS last FROM audit_entry')
  const response = await send()
  const text = await response.text()
  expect.soft({ door, status: response.status, text: response.status === 200 ? '' : text }).toEqual({
    door,
    status: 200,
    text: '',
  })
  const { rows: entries } = await world.pool.query<Entry>(
    `SELECT action, person_id AS "personId", subject, detail, address FROM audit_entry
      WHERE entry_id > $1 AND action NOT LIKE '%.viewed' ORDER BY entry_id`,
    [last],
  )
  expect.soft({ door, actions: entries.map(({ action }) => action) }).toEqual({ door, actions })
  for (const entry of entries) {
    const expected =
      'personId' in by
        ? { personId: by.personId }
        : { personId: null, detail: expect.objectContaining({ by_key_id: by.keyId }) }
    expect.soft({ door, ...entry }).toMatchObject({
      door,
      ...expected,
      address: expect.stringMatching(/127\.0\.0\.1$|::1$/),
    })
    expect(entry.subject).not.toBe('')
  }
  done.add(door)
  return JSON.parse(text)
}

async function signedIn(role: 'owner' | 'viewer', customerId: string) {
  const { browser, email } = await signedInMember(app, customerId, role)
  const { id: personId } = await one<{ id: string }>('SELECT person_id AS id FROM person WHERE email = $1', [email])
  return { browser, email, personId, by: { personId } }
}

test('a key of a customer or a hoster leaves entries with its id', async () => {
  const customer = await app.customer()
  const { keyId, key } = await transaction(world.pool, sql =>
    issueKey(sql, { customerId: customer.customerId, name: 'admin', scopes: ['manage'] }),
  )
  const by = { keyId }
  const send = (method: string, path: string, body?: object) => () =>
    fetch(`${app.url}/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
  const made = await change('POST /v1/keys', by, send('POST', 'keys', { name: 'made' }), 'key.issued')
  secrets.add(made.key)
  await change('PATCH /v1/keys/*', by, send('PATCH', `keys/${made.id}`, { name: 'other' }), 'key.changed')
  const rotated = await change(
    'POST /v1/keys/:id/rotate',
    by,
    send('POST', `keys/${made.id}/rotate`, {}),
    'key.rotated',
  )
  secrets.add(rotated.key)
  await change('POST /v1/keys/find', by, send('POST', 'keys/find', { key: made.key }))
  await change('PATCH /v1/keys/*', by, send('PATCH', `keys/${made.id}`, { paused: true }), 'key.paused', 'key.changed')
  await change('DELETE /v1/keys/*', by, send('DELETE', `keys/${made.id}`), 'key.revoked')
  const rule = { kind: 'daily_spend', channel: 'webhook', target: 'https://example.com/path-secret' }
  secrets.add('path-secret')
  const alert = await change('POST /v1/alerts', by, send('POST', 'alerts', rule), 'alert.added')
  secrets.add(alert.secret)
  await change('DELETE /v1/alerts/:id', by, send('DELETE', `alerts/${alert.id}`), 'alert.removed')

  const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:9' })
  await world.pool.query('UPDATE hoster SET active_since = now() WHERE hoster_id = $1', [hosterId])
  const hosters = await hosterKey(app, hosterId, ['manage'])
  const { id: hosterKeyId } = await one<{ id: string }>('SELECT key_id AS id FROM hoster_key WHERE hoster_id = $1', [
    hosterId,
  ])
  const asHoster = { keyId: hosterKeyId }
  const ask = (method: string, path: string, body?: object) => () =>
    hosterRequest(app, hosters.key, `hoster/${path}`, { method, ...(body && { body }) })
  const issued = await change(
    'POST /v1/hoster/keys',
    asHoster,
    ask('POST', 'keys', { name: 'gpu', scopes: ['read'] }),
    'hoster.key_issued',
  )
  secrets.add(issued.key)
  await change('DELETE /v1/hoster/keys/:key_id', asHoster, ask('DELETE', `keys/${issued.id}`), 'hoster.key_revoked')
  await change('PUT /v1/hoster/manifest', asHoster, ask('PUT', 'manifest', manifest), 'hoster.manifest_changed')
  await change('POST /v1/hoster/state', asHoster, ask('POST', 'state', { state: 'paused' }), 'hoster.state_changed')
  const server = { transport: 'direct', base_url: 'http://127.0.0.1:10', api_key: 'upstream-secret' }
  secrets.add('upstream-secret')
  await change('PUT /v1/hoster/server', asHoster, ask('PUT', 'server', server), 'hoster.state_changed')
  await world.pool.query(
    "UPDATE hoster SET state = 'suspended', quarantined_at = now(), quarantine_reason = 'x' WHERE hoster_id = $1",
    [hosterId],
  )
  await change(
    'POST /v1/hoster/appeal',
    asHoster,
    ask('POST', 'appeal', { text: 'It was a fault.' }),
    'hoster.appealed',
  )
  // An operator answers it.
  const operator = await signedInOperator(app)
  const answer = { decision: 'end', reason: 'A fault of ours' }
  await change(
    'POST operator/hosters/:hoster_id/quarantine',
    { personId: operator.personId },
    () => operator.browser.post(`operator/hosters/${hosterId}/quarantine`, answer),
    'hoster.state_changed',
    'hoster.appeal_answered',
  )
})

const manifest = {
  region: 'DE',
  data_policy: { trains_on_data: false, retention_days: 0 },
  models: [
    {
      id: 'market-model',
      context_length: 32_768,
      max_output_length: 8_192,
      quantization: 'fp8',
      supported_features: ['tools'],
      pricing: { prompt: '0.000001', completion: '0.000002' },
    },
  ],
}

test('a person leaves entries for changes of a customer', async () => {
  const { customerId } = await app.customer()
  const owner = await signedIn('owner', customerId)
  const path = `customers/${customerId}`
  const door = (method: string, rest: string) => `${method} customers/:customer_id/${rest}`
  const post =
    (rest: string, body: object = {}) =>
    () =>
      owner.browser.post(`${path}/${rest}`, body)
  const remove = (rest: string) => () => owner.browser.send('DELETE', `${path}/${rest}`)
  const key = await change(door('POST', 'keys'), owner.by, post('keys', { name: 'laptop' }), 'key.issued')
  secrets.add(key.key)
  const patch = () => owner.browser.send('PATCH', `${path}/keys/${key.id}`, { spend_limit_usd: 5 })
  await change(door('PATCH', 'keys/*'), owner.by, patch, 'key.changed')
  const rotated = await change(door('POST', 'keys/:id/rotate'), owner.by, post(`keys/${key.id}/rotate`), 'key.rotated')
  secrets.add(rotated.key)
  await change(door('POST', 'keys/find'), owner.by, post('keys/find', { key: key.key }))
  await change(door('DELETE', 'keys/*'), owner.by, remove(`keys/${key.id}`), 'key.revoked')
  const play = await change(door('POST', 'playground-key'), owner.by, post('playground-key'), 'key.issued')
  secrets.add(play.key)
  const rule = { kind: 'daily_spend', channel: 'email' }
  const alert = await change(door('POST', 'alerts'), owner.by, post('alerts', rule), 'alert.added')
  await change(door('POST', 'alerts/:id/test'), owner.by, post(`alerts/${alert.id}/test`))
  await change(door('DELETE', 'alerts/:id'), owner.by, remove(`alerts/${alert.id}`), 'alert.removed')
  const sharing = post('request-sharing', { consent: true })
  await change(door('POST', 'request-sharing'), owner.by, sharing, 'customer.sharing_changed')
  await change(door('DELETE', 'request-sharing'), owner.by, remove('request-sharing'), 'customer.sharing_changed')
  const order = () =>
    owner.browser.send('POST', `${path}/top-ups`, { amount_usd: 25 }, { 'idempotency-key': randomUUID() })
  const topUp = await change(door('POST', 'top-ups'), owner.by, order, 'payment.started')
  const cancel = door('POST', 'top-ups/:payment_id/cancel')
  await change(cancel, owner.by, post(`top-ups/${topUp.id}/cancel`), 'payment.cancelled')
  await world.pool.query(
    `INSERT INTO payment_method (method_id, customer_id, driver, provider_ref, brand, last4, expires)
     VALUES ($1, $1, 'stripe', 'pm_1', 'visa', '4242', '12/30')`,
    [customerId],
  )
  await world.pool.query(
    `INSERT INTO auto_top_up (customer_id, method_id, threshold_nanos, amount_nanos, monthly_max_nanos, consented_by, consented_at)
     VALUES ($1, $1, 1000000000, 5000000000, 5000000000, $2, now())`,
    [customerId, owner.personId],
  )
  await change(door('DELETE', 'auto-top-up'), owner.by, remove('auto-top-up'), 'auto_top_up.off')
  await change(door('DELETE', 'auto-top-up'), owner.by, remove('auto-top-up'))

  // Members.
  const invite = post('invites', { email: 'new@example.com', role: 'viewer' })
  const invited = await change(door('POST', 'invites'), owner.by, invite, 'member.invited')
  const takeBack = remove(`invites/${invited.id}`)
  await change(door('DELETE', 'invites/:invite_id'), owner.by, takeBack, 'invite.revoked')
  const member = await signedIn('viewer', customerId)
  const setRole = () => owner.browser.send('PATCH', `${path}/people/${member.personId}`, { role: 'developer' })
  await change(door('PATCH', 'people/:person_id'), owner.by, setRole, 'member.role_changed')
  const removal = remove(`people/${member.personId}`)
  await change(door('DELETE', 'people/:person_id'), owner.by, removal, 'member.removed')
  const leaver = await signedIn('viewer', customerId)
  await change(door('POST', 'leave'), leaver.by, () => leaver.browser.post(`${path}/leave`), 'member.left')
})

test('a person leaves entries for the ways in', async () => {
  const { customerId } = await app.customer()
  const email = 'join@example.com'
  const link = await transaction(world.pool, sql =>
    makeInviteLink(sql, { customerId, email, role: 'owner' }, Date.now()),
  )
  const url = app.url.replace('127.0.0.1', 'localhost')
  const browser = new BrowserClient(url)
  const join = () => browser.post('join', { token: tokenOf(link), name: 'Ada', password: PASSWORD })
  await expect(join()).resolves.toMatchObject({ status: 200 })
  done.add('POST join')
  const { id: personId, actions } = await one<{ id: string; actions: string[] }>(
    `SELECT person_id AS id, (SELECT array_agg(action) FROM audit_entry a WHERE a.person_id = p.person_id) AS actions
       FROM person p WHERE email = $1`,
    [email],
  )
  expect(actions).toContain('member.joined')
  const by = { personId }
  const again = new BrowserClient(url)
  const signIn = () => again.post('sign-in', { email, password: PASSWORD })
  await change('POST sign-in', by, signIn, 'person.signed_in')
  await change('POST sign-out', by, () => again.post('sign-out'), 'person.signed_out')
  await again.post('sign-in', { email, password: PASSWORD })
  const { data: sessions } = (await (await browser.get('sessions')).json()) as {
    data: { id: string; is_current: boolean }[]
  }
  const other = sessions.find(each => !each.is_current)!
  const end = () => browser.send('DELETE', `sessions/${other.id}`)
  await change('DELETE sessions/:session_id', by, end, 'session.ended')
  await again.post('sign-in', { email, password: PASSWORD })
  await change('POST sessions/end-others', by, () => browser.post('sessions/end-others'), 'session.ended')
  const rename = () => browser.send('PATCH', 'person', { name: 'Ada L.' })
  await change('PATCH person', by, rename, 'person.name_changed')
  const password = 'another correct horse battery'
  const reset = () => browser.post('password', { current_password: PASSWORD, new_password: password })
  await change('POST password', by, reset, 'person.password_changed')
  secrets.add(password).add(PASSWORD)
  const { secret } = (await (await browser.post('factors/totp/start')).json()) as { secret: string }
  secrets.add(secret)
  const code = new TOTP({ secret: Secret.fromBase32(secret) }).generate()
  const added = await change('POST factors/totp', by, () => browser.post('factors/totp', { code }), 'factor.added')
  for (const each of added.recovery_codes) secrets.add(each)
  const codes = () => browser.post('factors/recovery-codes')
  await change('POST factors/recovery-codes', by, codes, 'recovery_codes.made')
  const authenticator = new SoftwareAuthenticator(url)
  const passkey = authenticator.create((await (await browser.post('factors/passkeys/start')).json()) as never, {})
  const add = () => browser.post('factors/passkeys', { name: 'Phone', passkey })
  await change('POST factors/passkeys', by, add, 'factor.added')
  const { id } = await one<{ id: string }>('SELECT passkey_id AS id FROM person_passkey WHERE person_id = $1', [
    personId,
  ])
  const named = () => browser.send('PATCH', `factors/passkeys/${id}`, { name: 'Key' })
  await change('PATCH factors/passkeys/:passkey_id', by, named, 'factor.renamed')
  const used = authenticator.get((await (await again.post('passkeys/sign-in/start')).json()) as never, {})
  const enter = () => again.post('passkeys/sign-in', { passkey: used })
  await change('POST passkeys/sign-in', by, enter, 'person.signed_in')
  const drop = () => browser.send('DELETE', 'factors/totp')
  await change('DELETE factors/totp', by, drop, 'factor.removed')
  const forget = () => browser.send('DELETE', `factors/passkeys/${id}`)
  await change('DELETE factors/passkeys/:passkey_id', by, forget, 'factor.removed')
  const operator = await operatorToken(app, 'welcome@example.com')
  const welcome = () => new BrowserClient(app.url).post('welcome', { token: operator.token, password: PASSWORD })
  await change('POST welcome', { personId: operator.personId }, welcome, 'person.welcomed')
  await world.pool.query("UPDATE person SET installation_role = NULL WHERE email = 'welcome@example.com'")
})

test('a person leaves entries for changes of a hoster', async () => {
  const { customerId } = await app.customer({ creditNanos: 0n })
  const owner = await signedIn('owner', customerId)
  const apply = () => owner.browser.post('hosters', { name: 'garage', transport: 'agent' })
  await change('POST hosters', owner.by, apply, 'hoster.applied')
  const hosterId = await world.addHoster({ hasAccount: false })
  await world.pool.query(
    "INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url) VALUES (gen_random_uuid(), $1, 'http://127.0.0.1:9')",
    [hosterId],
  )
  await addHosterMember(world.pool, { hosterId, personId: owner.personId, role: 'owner' })
  const path = `hosters/${hosterId}`
  const door = (method: string, rest: string) => `${method} hosters/:hoster_id/${rest}`
  const send = (method: string, rest: string, body?: object) => () =>
    owner.browser.send(method, `${path}/${rest}`, method === 'DELETE' ? undefined : (body ?? {}))
  const issued = await change(
    door('POST', 'keys'),
    owner.by,
    send('POST', 'keys', { name: 'gpu', scopes: ['serve'] }),
    'hoster.key_issued',
  )
  secrets.add(issued.key)
  await change(door('DELETE', 'keys/:key_id'), owner.by, send('DELETE', `keys/${issued.id}`), 'hoster.key_revoked')
  const invite = send('POST', 'invites', { email: 'guest@example.com', role: 'viewer' })
  const invited = await change(door('POST', 'invites'), owner.by, invite, 'hoster.member_invited')
  const takeBack = send('DELETE', `invites/${invited.id}`)
  await change(door('DELETE', 'invites/:invite_id'), owner.by, takeBack, 'hoster.invite_revoked')
  const member = await signedIn('viewer', customerId)
  await addHosterMember(world.pool, { hosterId, personId: member.personId, role: 'viewer' })
  const setRole = send('POST', 'people', { email: member.email, role: 'developer' })
  await change(door('POST', 'people'), owner.by, setRole, 'hoster.member_changed')
  const leave = () => member.browser.post(`${path}/leave`)
  await change(door('POST', 'leave'), member.by, leave, 'hoster.member_changed')
  await change(door('PUT', 'manifest'), owner.by, send('PUT', 'manifest', manifest), 'hoster.manifest_changed')
  await change(door('POST', 'state'), owner.by, send('POST', 'state', { state: 'paused' }), 'hoster.state_changed')
  await change(door('POST', 'state'), owner.by, send('POST', 'state', { state: 'active' }), 'hoster.state_changed')

  // Earnings.
  const payer = await world.addCustomer(0n)
  await grantCredit(world.pool, { customerId: payer, amountNanos: 100n * USD, ref: 'invoice', reason: 'paid' })
  for (let n = 0; n < 5; n++) await world.charge(payer, hosterId, Date.now() - 40 * DAY_MS, USD)
  const account = { driver: 'csv', holder: 'Acme GmbH', account: 'DE89 3704 0044 0532 0130 00' }
  const requested = 'hoster.payout_change_requested'
  await change(door('POST', 'payout-account'), owner.by, send('POST', 'payout-account', account), requested)
  const { id: changeId } = await one<{ id: string }>('SELECT change_id AS id FROM payout_change WHERE hoster_id = $1', [
    hosterId,
  ])
  const stop = send('POST', `payout-changes/${changeId}/stop`)
  await change(door('POST', 'payout-changes/:change_id/stop'), owner.by, stop, 'hoster.payout_change_stopped')
  const customer = send('POST', 'payout-customer', { customer_id: customerId })
  await change(door('POST', 'payout-customer'), owner.by, customer, requested)
  await applyPayoutChanges(world.pool, Date.now() + 4 * DAY_MS)
  const move = (amount: number) => ({ id: randomUUID(), amount_usd: amount })
  await change(
    door('POST', 'earnings/move'),
    owner.by,
    send('POST', 'earnings/move', move(0.5)),
    'hoster.earnings_moved',
  )
  const { key } = await hosterKey(app, hosterId, ['manage'])
  const { id: keyId } = await one<{ id: string }>(
    'SELECT key_id AS id FROM hoster_key WHERE hoster_id = $1 AND revoked_at IS NULL',
    [hosterId],
  )
  const moved = () => hosterRequest(app, key, 'hoster/earnings/move', { method: 'POST', body: move(0.25) })
  await change('POST /v1/hoster/earnings/move', { keyId }, moved, 'hoster.earnings_moved')

  await change(door('POST', 'verification'), owner.by, send('POST', 'verification')).catch(() => {})
  done.add(door('POST', 'verification'))
  const server = { transport: 'agent' }
  await change(door('PUT', 'server'), owner.by, send('PUT', 'server', server), 'hoster.state_changed')
  await world.pool.query(
    "UPDATE hoster SET state = 'suspended', quarantined_at = now(), quarantine_reason = 'x' WHERE hoster_id = $1",
    [hosterId],
  )
  const appeal = send('POST', 'appeal', { text: 'It was a fault.' })
  await change(door('POST', 'appeal'), owner.by, appeal, 'hoster.appealed')
})

test('an operator leaves entries', async () => {
  await world.pool.query('UPDATE person SET installation_role = NULL')
  const operator = await signedInOperator(app)
  const by = { personId: operator.personId }
  const send = (method: string, path: string, body?: object) => () =>
    operator.browser.send(method, `operator/${path}`, method === 'DELETE' ? undefined : (body ?? {}))
  const reason = 'checks'

  // Customers.
  const order = send('POST', 'customers', { email: 'made@example.com' })
  const { id } = await change('POST operator/customers', by, order, 'customer.created')
  const customerDoor = (method: string, rest: string) => `${method} operator/customers/:customer_id${rest}`
  await change(customerDoor('PATCH', ''), by, send('PATCH', `customers/${id}`, { paused: true }), 'customer.changed')
  await change(customerDoor('PATCH', ''), by, send('PATCH', `customers/${id}`, { paused: false }), 'customer.changed')
  const invite = send('POST', `customers/${id}/invites`, { email: 'made@example.com' })
  await change(customerDoor('POST', '/invites'), by, invite, 'member.invited')
  const issued = await transaction(world.pool, sql => issueKey(sql, { customerId: id, name: 'x' }))
  const order2 = send('POST', `customers/${id}/keys`, { name: 'made' })
  const madeKey = await change(customerDoor('POST', '/keys'), by, order2, 'key.issued')
  secrets.add(madeKey.key)
  const keyPath = `customers/${id}/keys/${issued.keyId}`
  const limit = send('PATCH', keyPath, { spend_limit_usd: 5, limit_reset: 'daily' })
  await change(customerDoor('PATCH', '/keys/:key_id'), by, limit, 'key.changed')
  await change(customerDoor('POST', '/keys/:key_id/pause'), by, send('POST', `${keyPath}/pause`), 'key.paused')
  await change(customerDoor('POST', '/keys/:key_id/resume'), by, send('POST', `${keyPath}/resume`), 'key.resumed')
  await change('POST operator/customer-keys/find', by, send('POST', 'customer-keys/find', { key: issued.key }))
  const revoke = send('DELETE', `customers/${id}/keys/${issued.keyId}`)
  await change(customerDoor('DELETE', '/keys/:key_id'), by, revoke, 'key.revoked')
  const credit = (amount: number) =>
    send('POST', `customers/${id}/grants`, { amount_usd: amount, reason, is_promotion: false })
  await change(customerDoor('POST', '/grants'), by, credit(50), 'credit.granted')
  const hosterId = await world.addHoster()
  await world.pool.query(
    "INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url) VALUES (gen_random_uuid(), $1, 'http://127.0.0.1:9')",
    [hosterId],
  )
  const requestId = await world.charge(id, hosterId, Date.now(), USD)
  const refund = send('POST', `customers/${id}/refunds`, { request_id: requestId, reason })
  await change(customerDoor('POST', '/refunds'), by, refund, 'request.refunded')

  // Payments and vouchers.
  const pay = async () => {
    const paymentId = randomUUID()
    const reference = `SY-${paymentId.slice(0, 8)}`
    await world.pool.query(
      "SELECT start_payment($1, $2, 'manual', 25000000000, 2500, 'usd', true, $3, NULL, NULL, NULL, NULL)",
      [paymentId, id, reference],
    )
    return paymentId
  }
  const payment = await pay()
  const paymentDoor = (rest: string) => `POST operator/payments/:payment_id/${rest}`
  await change(paymentDoor('confirm'), by, send('POST', `payments/${payment}/confirm`), 'payment.confirmed')
  const back = send('POST', `payments/${payment}/refunds`, { amount_usd: 5, reason })
  await change(paymentDoor('refunds'), by, back, 'payment.refunded')
  const { id: reversal } = await one<{ id: string }>('SELECT reversal_id AS id FROM payment_reversal')
  const giveBack = send('POST', `reversals/${reversal}/return`)
  await change('POST operator/reversals/:reversal_id/return', by, giveBack, 'payment.reversal_returned')
  await change('POST operator/payments/reconcile', by, send('POST', 'payments/reconcile'), 'payment.reconciled')
  const two = send('POST', 'vouchers', { amount_usd: 5, count: 2 })
  const { data: vouchers } = await change('POST operator/vouchers', by, two, 'voucher.made', 'voucher.made')
  for (const { code } of vouchers) secrets.add(code)
  const withdrawn = send('DELETE', `vouchers/${vouchers[0].id}`)
  await change('DELETE operator/vouchers/:voucher_id', by, withdrawn, 'voucher.revoked')
  const payer = await signedIn('owner', id)
  const redeem = () => payer.browser.post(`customers/${id}/vouchers/redeem`, { code: vouchers[1].code })
  await change('POST customers/:customer_id/vouchers/redeem', payer.by, redeem, 'voucher.redeemed')

  // Keys of the operator API.
  const key = send('POST', 'keys', { name: 'reports', scopes: ['read'] })
  const made = await change('POST operator/keys', by, key, 'operator_key.issued')
  secrets.add(made.key)
  const end = send('DELETE', `keys/${made.id}`)
  await change('DELETE operator/keys/:key_id', by, end, 'operator_key.revoked')

  // Hosters and models.
  const newHoster = send('POST', 'hosters', { name: 'attic', email: 'attic@example.com' })
  await change('POST operator/hosters', by, newHoster, 'hoster.applied', 'hoster.member_invited')
  const hosterDoor = (rest: string) => `POST operator/hosters/:hoster_id/${rest}`
  const guest = send('POST', `hosters/${hosterId}/invites`, { email: 'guest2@example.com' })
  await change(hosterDoor('invites'), by, guest, 'hoster.member_invited')
  const score = send('PATCH', `hosters/${hosterId}`, { trust_score: 0.5, reason })
  await change('PATCH operator/hosters/:hoster_id', by, score, 'hoster.changed')
  const price = {
    ...{ model: 'priced-model', input_usd_per_million: 1, output_usd_per_million: 2 },
    ...{ context_tokens: 1000, max_output_tokens: 100 },
  }
  await change(hosterDoor('prices'), by, send('POST', `hosters/${hosterId}/prices`, price), 'price.changed')
  const approve = send('POST', 'model-ids', { model: 'other-model', decision: 'approve', reason })
  await change('POST operator/model-ids', by, approve, 'model.approved')

  // Providers.
  const settings = {
    ...{ name: 'own-server', kind: 'local', base_url: 'http://127.0.0.1:9/v1' },
    models: [
      {
        ...{ id: 'own-model', price_per_million_usd: { input: 1, output: 2 } },
        ...{ context_tokens: 1000, max_output_tokens: 100 },
      },
    ],
  }
  secrets.add('provider-secret')
  const provider = { settings, secrets: { api_key: 'provider-secret' }, reason }
  const first = await change('POST operator/providers', by, send('POST', 'providers', provider), 'provider.created')
  const changed = await change(
    'PUT operator/providers/:name',
    by,
    send('PUT', 'providers/own-server', { ...provider, version: first.version }),
    'provider.changed',
  )
  const off = send('PATCH', 'providers/own-server', { is_enabled: false, reason })
  const third = await change('PATCH operator/providers/:name', by, off, 'provider.disabled')
  expect(third.version).toBeGreaterThan(changed.version)
  const gone = () =>
    operator.browser.send('DELETE', 'operator/providers/own-server', { version: third.version, reason })
  await change('DELETE operator/providers/:name', by, gone, 'provider.removed')

  // Prices of customers.
  const rules = { percent: '-10', models: {}, reason }
  const group = send('POST', 'price-groups', { name: 'partners', ...rules })
  const partners = await change('POST operator/price-groups', by, group, 'price_group.created')
  const other = send('PUT', 'price-groups/partners', { ...rules, percent: '5', version: partners.version })
  const next = await change('PUT operator/price-groups/:name', by, other, 'price_group.changed')
  for (const [door, path] of [
    ['PUT operator/customers/:customer_id/price-group', `customers/${id}/price-group`],
    ['PUT operator/tier-price-groups/:name', 'tier-price-groups/scale'],
  ] as const)
    for (const name of ['partners', null])
      await change(door, by, send('PUT', path, { price_group: name, reason }), 'price_group.assigned')
  const ended = () =>
    operator.browser.send('DELETE', 'operator/price-groups/partners', { version: next.version, reason })
  await change('DELETE operator/price-groups/:name', by, ended, 'price_group.removed')

  const settingsOf = (version: number, changes: object) => ({ version, changes, reason })
  const fewer = send('PATCH', 'settings', settingsOf(0, { 'routing.attempts_max': 2 }))
  await change('PATCH operator/settings', by, fewer, 'settings.changed')
  const signup = send('PATCH', 'settings/money', settingsOf(1, { 'signup.credit_usd': '4' }))
  await change('PATCH operator/settings/money', by, signup, 'settings.changed')
  const reload = send('POST', 'config/reload', { reason })
  await change('POST operator/config/reload', by, reload, 'config.reloaded')

  // Payouts.
  await grantCredit(world.pool, { customerId: id, amountNanos: 100n * USD, ref: 'invoice 3', reason: 'paid' })
  for (let n = 0; n < 5; n++) await world.charge(id, hosterId, Date.now() - 40 * DAY_MS, USD)
  const payoutDoor = (rest: string) => `POST operator/payouts${rest}`
  const prepare = async () =>
    (await change(payoutDoor(''), by, send('POST', 'payouts', { driver: 'csv' }), 'payout.prepared')).batch.id as string
  const cancelled = await prepare()
  const cancel = send('POST', `payouts/${cancelled}/cancel`)
  await change(payoutDoor('/:batch_id/cancel'), by, cancel, 'payout.cancelled')
  const batch = await prepare()
  await change(payoutDoor('/:batch_id/approve'), by, send('POST', `payouts/${batch}/approve`), 'payout.approved')
  await change(payoutDoor('/:batch_id/settle'), by, send('POST', `payouts/${batch}/settle`), 'payout.settled')
  const { id: payout } = await one<{ id: string }>('SELECT payout_id AS id FROM payout WHERE batch_id = $1', [batch])
  const paid = send('POST', `transfers/${payout}`, { is_paid: true })
  await change('POST operator/transfers/:payout_id', by, paid, 'payout.paid')
  const freeze = send('POST', `hosters/${hosterId}/freeze`, { reason })
  await change(hosterDoor('freeze'), by, freeze, 'hoster.payouts_frozen')
  const release = send('POST', `hosters/${hosterId}/release`, { reason })
  await change(hosterDoor('release'), by, release, 'hoster.payouts_released')
  const claw = send('POST', `hosters/${hosterId}/clawbacks`, { id: randomUUID(), amount_usd: 0.1, reason })
  await change(hosterDoor('clawbacks'), by, claw, 'hoster.clawed_back')
  const { id: clawback } = await one<{ id: string }>('SELECT clawback_id AS id FROM clawback')
  const undo = send('POST', `clawbacks/${clawback}/return`, { reason })
  await change('POST operator/clawbacks/:clawback_id/return', by, undo, 'hoster.clawback_returned')
  const related = await world.addCustomer(USD)
  await world.pool.query('INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, $3)', [
    ...[related, payer.personId, 'owner'],
  ])
  await addHosterMember(world.pool, { hosterId, personId: payer.personId, role: 'owner' })
  await world.charge(related, hosterId, Date.now(), USD)
  await world.prepare(Date.now() + 40 * DAY_MS, { minNanos: USD / 2n })
  const { id: review } = await one<{ id: string }>('SELECT review_id AS id FROM promotion_review')
  const decide = send('POST', `promotion-reviews/${review}`, { is_released: true, reason })
  await change('POST operator/promotion-reviews/:review_id', by, decide, 'payout.promotion_released')

  // People, and what needs a second operator.
  const someone = await signedIn('viewer', id)
  const block = send('POST', `people/${someone.personId}/block`, { reason })
  await change('POST operator/people/:person_id/block', by, block, 'person.blocked')
  const unblock = send('POST', `people/${someone.personId}/unblock`)
  await change('POST operator/people/:person_id/unblock', by, unblock, 'person.unblocked')
  await world.pool.query("UPDATE person SET email_verified_at = now(), totp_secret = '\\x00' WHERE person_id = $1", [
    someone.personId,
  ])
  const invitation = { email: 'invited@example.com', role: 'auditor' }
  const { id: inviteId } = await change(
    'POST operator/invites',
    by,
    send('POST', 'invites', invitation),
    'operator.invited',
  )
  const takeBack = send('DELETE', `invites/${inviteId}`)
  await change('DELETE operator/invites/:invite_id', by, takeBack, 'operator.invite_revoked')
  await world.pool.query(
    "UPDATE person SET invited_role = 'auditor', invited_by = $2, invited_at = now() WHERE person_id = $1",
    [someone.personId, operator.personId],
  )
  const dismiss = send('DELETE', `people/${someone.personId}/invite`)
  await change('DELETE operator/people/:person_id/invite', by, dismiss, 'operator.invite_revoked')
  const second = await signedInOperator(app)
  const bySecond = { personId: second.personId }
  const setRole = (role: string | null) => send('POST', `people/${someone.personId}/role`, { role })
  await change('POST operator/people/:person_id/role', by, setRole('auditor'), 'role.requested')
  const waiting = async () =>
    (await one<{ id: string }>("SELECT change_id AS id FROM role_change WHERE state = 'waiting'")).id
  const roleDoor = (verb: string) => `POST operator/role-changes/:change_id/${verb}`
  const change1 = await waiting()
  const no = () => second.browser.post(`operator/role-changes/${change1}/reject`)
  await change(roleDoor('reject'), bySecond, no, 'role.rejected')
  await change('POST operator/people/:person_id/role', by, setRole('auditor'), 'role.requested')
  const change2 = await waiting()
  const yes = () => second.browser.post(`operator/role-changes/${change2}/approve`)
  await change(roleDoor('approve'), bySecond, yes, 'role.changed')
  const grantDoor = (verb: string) => `POST operator/grants/:grant_id/${verb}`
  for (const [verb, action] of [
    ['approve', 'credit.granted'],
    ['reject', 'credit.rejected'],
  ] as const) {
    const { grant_id } = await change(customerDoor('POST', '/grants'), by, credit(500), 'credit.requested')
    const decision = () => second.browser.post(`operator/grants/${grant_id}/${verb}`)
    await change(grantDoor(verb), bySecond, decision, action)
  }
  await makeOperator(app, operator.personId)
})

test('every address that changes something is tried, and no entry has a secret', async () => {
  const doors = routesOf(app.app.server.printRoutes())
    .filter(route => !/^(GET|OPTIONS) /.test(route))
    .map(route => route.replace(' /console/api/', ' '))
    // The same handlers, with keys: operator-keys has their entries.
    .filter(route => {
      const inConsole = route.replace(' /v1/admin/', ' operator/')
      return (
        inConsole === route ||
        !(done.has(inConsole) || Object.hasOwn(exempt, inConsole) || Object.hasOwn(elsewhere, inConsole))
      )
    })
  expect([...new Set([...done, ...Object.keys(exempt), ...Object.keys(elsewhere)])].sort()).toEqual(doors.sort())
  for (const [file, action] of Object.values(elsewhere)) expect(readPage(file)).toContain(`'${action}'`)
  const { rows } = await world.pool.query<{ line: string }>(
    'SELECT concat_ws(chr(32), subject, detail) AS line FROM audit_entry',
  )
  const log = rows.map(({ line }) => line).join('\n')
  expect(secrets.size).toBeGreaterThan(20)
  for (const secret of secrets) expect(log.includes(secret), secret).toBe(false)
})
