import { Secret, TOTP } from 'otpauth'
import { expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { makeWelcomeLink } from '../../src/identity/people/links.ts'
import { lockPerson } from '../../src/identity/people/persons.ts'
import { startSmtpSink } from '../alerts/smtp-sink.ts'
import { BrowserClient, operatorToken, PASSWORD, signedInMember, tokenOf } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { CLIENT_ID, startScriptedProvider } from '../harness/scripted-provider.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// A person could join with the invitation of another person's address, link an own way in, and keep it when the owner of the address
// set a new password.

let nowMs = Date.now()
const clock = { epochMs: () => nowMs, monotonicMs: () => performance.now() }
const smtp = useResource(
  async () => ({ sink: await startSmtpSink() }),
  ({ sink }) => sink.close(),
)
const provider = useResource(startScriptedProvider, each => each.close())
const app = useTestApp(() => ({
  clock,
  yaml: `accounts:
  oidc:
    - id: work
      name: Work
      issuer: ${provider.issuer}
      client_id: ${CLIENT_ID}
      client_secret: ${provider.clientSecret}
smtp:
  host: 127.0.0.1
  port: ${smtp.sink.port}
  security: none
`,
}))

const url = () => app.url.replace('127.0.0.1', 'localhost')
const browser = () => new BrowserClient(url())
const json = async <T>(response: Promise<Response>) => {
  const answer = await response
  expect(answer.status).toBe(200)
  return (await answer.json()) as T
}
const MAILED = 'Set a new password'
const readMails = new Set<object>()
/** Waits for the next mail of this kind to the address, and returns the secret of its link. */
const secretMailed = (email: string, path: string, subject: string) =>
  vi.waitFor(() => {
    const mail = smtp.sink.mails.findLast(
      each => each.to === email && each.source.includes(`Subject: ${subject}`) && !readMails.has(each),
    )
    readMails.add(mail!)
    return new RegExp(`${path}#([\\w-]{43})`).exec(mail!.source.replace(/=\r?\n/g, ''))![1]!
  }, 5_000)

const useKey = (key: string) => fetch(`${app.url}/v1/credits`, { headers: { authorization: `Bearer ${key}` } })
const codeOf = (secret: string) =>
  new TOTP({ secret: Secret.fromBase32(secret), period: 30 }).generate({ timestamp: nowMs })

async function signInByService(subject: string): Promise<Response> {
  const client = browser()
  const started = await json<{ url: string }>(client.post('oidc/start', { provider: 'work' }))
  return await client.post('oidc/finish', { query: provider.visit(started.url, { subject }).search })
}

/** An attacker joins as the owner of an address that is not theirs, and attaches what lets them in later. */
async function preparedAccount() {
  const { customerId } = await app.customer()
  const attacker = await signedInMember(app, customerId, 'developer', nowMs, url())
  const { browser: client, email } = attacker
  const subject = `subject of ${email}`
  const started = await json<{ url: string }>(client.post('identities/start', { provider: 'work' }))
  await json(client.post('oidc/finish', { query: provider.visit(started.url, { subject }).search }))
  const path = `customers/${customerId}`
  const { key } = await json<{ key: string }>(client.post(`${path}/keys`, { name: 'kept', scopes: ['manage'] }))
  const made = await fetch(`${app.url}/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ name: 'made by the kept one' }),
  })
  const { key: secondKey } = (await made.json()) as { key: string }
  const { secret } = await json<{ secret: string }>(client.post('factors/totp/start'))
  const { recovery_codes } = await json<{ recovery_codes: string[] }>(
    client.post('factors/totp', { code: codeOf(secret) }),
  )
  return { ...attacker, customerId, subject, keys: [key, secondKey], secret, recoveryCode: recovery_codes[0]! }
}

async function expectNothingLeft({
  browser: client,
  subject,
  keys,
  email,
}: Awaited<ReturnType<typeof preparedAccount>>) {
  expect((await client.get('session')).status).toBe(401)
  expect(await readError(await signInByService(subject))).toMatchObject({ code: 'no_account_here' })
  await vi.waitFor(async () => {
    for (const key of keys) expect((await useKey(key)).status).toBe(401)
  }, 5_000)
  for (const table of ['person_identity', 'person_passkey', 'person_recovery_code']) {
    const { rows } = await app.database.pool.query(
      `SELECT t.* FROM ${table} t JOIN person USING (person_id) WHERE person.email = $1`,
      [email],
    )
    expect(rows, table).toEqual([])
  }
}

test('the first proof of an address by a reset ends every way in that was made before it', async () => {
  const prepared = await preparedAccount()
  const { email } = prepared
  // A sign-in that waits for the second factor links its identity when it goes on.
  expect(await (await signInByService(prepared.subject)).json()).toMatchObject({ outcome: 'factor' })
  const victim = browser()
  await json(victim.post('forgot', { email }))
  await json(victim.post('reset', { token: await secretMailed(email, '/reset', MAILED), password: `${PASSWORD} new` }))
  await expectNothingLeft(prepared)
  // No code is asked for: the app was that of the attacker.
  await json(victim.post('sign-in', { email, password: `${PASSWORD} new` }))
  expect(await json(victim.get('factors'))).toMatchObject({ has_totp: false, identities: [], recovery_codes_left: 0 })
  const left = await app.database.pool.query(
    'SELECT purpose FROM person_token t JOIN person p ON p.person_id IN (t.person_id, t.made_by) WHERE p.email = $1',
    [email],
  )
  expect(left.rows).toEqual([])
})

test('a mailed invitation opens an account that has not proved its address with a new password, as a reset', async () => {
  const prepared = await preparedAccount()
  const { email } = prepared
  const { customerId } = await app.customer()
  const owner = await signedInMember(app, customerId, 'owner', nowMs)
  expect(await json(owner.browser.post(`customers/${customerId}/invites`, { email, role: 'viewer' }))).toMatchObject({
    is_mailed: true,
    url: null,
  })
  const token = await secretMailed(email, '/invite', 'Invitation to')
  const victim = browser()
  expect(await json(victim.post('invite', { token }))).toMatchObject({ has_password: false })
  await json(victim.post('join', { token, password: `${PASSWORD} new` }))
  await expectNothingLeft(prepared)
  expect((await browser().post('sign-in', { email, password: PASSWORD })).status).toBe(401)
})

test('a proof that is not the first one leaves everything, and a mailbox alone removes no factor of an operator', async () => {
  const { customerId } = await app.customer()
  const { browser: client, email } = await signedInMember(app, customerId, 'owner', nowMs)
  const reset = async (address: string) => {
    await json(browser().post('forgot', { email: address }))
    const token = await secretMailed(address, '/reset', MAILED)
    await json(browser().post('reset', { token, password: PASSWORD }))
  }
  await reset(email)
  const again = browser()
  await json(again.post('sign-in', { email, password: PASSWORD }))
  const { key } = await json<{ key: string }>(again.post(`customers/${customerId}/keys`, { name: 'mine' }))
  const { secret } = await json<{ secret: string }>(again.post('factors/totp/start'))
  await json(again.post('factors/totp', { code: codeOf(secret) }))
  expect((await client.get('session')).status).toBe(401)
  nowMs += 3_600_000
  await reset(email)
  expect(await readError(await browser().post('sign-in', { email, password: PASSWORD }))).toMatchObject({
    code: 'second_factor_required',
  })
  expect((await useKey(key)).status).toBe(200)

  const operator = 'operator-with-an-app@example.com'
  const entered = browser()
  await json(entered.post('welcome', { token: (await operatorToken(app, operator, nowMs)).token, password: PASSWORD }))
  const made = await json<{ secret: string }>(entered.post('factors/totp/start'))
  await json(entered.post('factors/totp', { code: codeOf(made.secret) }))
  await reset(operator)
  expect(await readError(await browser().post('sign-in', { email: operator, password: PASSWORD }))).toMatchObject({
    code: 'second_factor_required',
  })
})

test('the link of a mail that failed is shown to nobody', async () => {
  const { customerId } = await app.customer()
  const owner = await signedInMember(app, customerId, 'owner', nowMs)
  const path = `customers/${customerId}/invites`
  smtp.sink.refuse = true
  try {
    const failed = await json(owner.browser.post(path, { email: 'greylisted@example.com', role: 'viewer' }))
    expect(failed).toMatchObject({ is_mailed: false, url: null })
    expect(JSON.stringify(failed)).not.toMatch(/[\w-]{43}/)
  } finally {
    smtp.sink.refuse = false
  }
  const invites = await json<{ data: { email: string }[] }>(owner.browser.get(path))
  expect(invites.data).toMatchObject([{ email: 'greylisted@example.com' }])
  expect(await json(owner.browser.post(path, { email: 'greylisted@example.com', role: 'viewer' }))).toMatchObject({
    is_mailed: true,
  })
})

test('a request that runs while the address is proved adds no way in', async () => {
  const { customerId } = await app.customer()
  const { browser: client, email } = await signedInMember(app, customerId, 'owner', nowMs, url())
  const { rows } = await app.database.pool.query<{ personId: string }>(
    'SELECT person_id AS "personId" FROM person WHERE email = $1',
    [email],
  )
  const { personId } = rows[0]!
  const started = await json<{ url: string }>(client.post('identities/start', { provider: 'work' }))
  const { search } = provider.visit(started.url, { subject: `late ${email}` })
  const late = await transaction(app.database.pool, async sql => {
    await lockPerson(sql, personId)
    const answer = client.post('oidc/finish', { query: search })
    // The request has passed the check of its session once it waits for the person.
    await vi.waitFor(async () => {
      const waiting = await app.database.pool.query("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
      expect(waiting.rowCount).toBeGreaterThan(0)
    }, 5_000)
    await sql.query('DELETE FROM person_session WHERE person_id = $1', [personId])
    return { answer }
  })
  expect(await readError(await late.answer)).toMatchObject({ code: 'not_signed_in' })
  expect((await signInByService(`late ${email}`)).status).not.toBe(200)
})

test('a welcome link of the host ends what was linked to an operator, and a new password takes back mailed links', async () => {
  const email = 'lost-operator@example.com'
  const first = await operatorToken(app, email, nowMs)
  const stolen = browser()
  await json(stolen.post('welcome', { token: first.token, password: PASSWORD }))
  const started = await json<{ url: string }>(stolen.post('identities/start', { provider: 'work' }))
  await json(stolen.post('oidc/finish', { query: provider.visit(started.url, { subject: 'thief' }).search }))
  await json(stolen.post('forgot', { email }))
  const reset = await secretMailed(email, '/reset', MAILED)
  const token = await transaction(app.database.pool, async sql => {
    return tokenOf(await makeWelcomeLink(sql, first.personId, nowMs))
  })
  await json(browser().post('welcome', { token, password: `${PASSWORD} new` }))
  expect(await readError(await signInByService('thief'))).toMatchObject({ code: 'no_account_here' })
  expect((await browser().post('reset', { token: reset, password: `${PASSWORD} 3` })).status).toBe(404)
})
