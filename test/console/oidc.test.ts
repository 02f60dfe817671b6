import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { addPerson, noteVerified } from '../../src/identity/people/persons.ts'
import { startSmtpSink } from '../alerts/smtp-sink.ts'
import { BrowserClient, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { CLIENT_ID, type ProviderScript, startScriptedProvider } from '../harness/scripted-provider.ts'
import { SoftwareAuthenticator } from '../harness/software-authenticator.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

let nowMs = Date.now()
const clock = { epochMs: () => nowMs, monotonicMs: () => performance.now() }
const provider = useResource(startScriptedProvider, each => each.close())
const smtp = useResource(startSmtpSink, sink => sink.close())
const providerYaml = () => `  oidc:
    - id: work
      name: Work
      issuer: ${provider.issuer}
      client_id: ${CLIENT_ID}
      client_secret: ${provider.clientSecret}
    - id: gone
      name: Gone
      issuer: http://127.0.0.1:1
      client_id: x
`
const lines: string[] = []
const app = useTestApp(() => ({
  clock,
  onLog: line => lines.push(line),
  yaml: `accounts:\n  sign_up: open\n${providerYaml()}smtp:\n  host: 127.0.0.1\n  port: ${smtp.port}\n  security: none\nserver:\n  trusted_proxies: [127.0.0.1]\n`,
}))
const invited = useTestApp(() => ({ clock, yaml: `accounts:\n${providerYaml()}` }))

const url = (of = app) => of.url.replace('127.0.0.1', 'localhost')
const browser = (of = app) => new BrowserClient(url(of))
const newMail = () => `oidc-${randomBytes(4).toString('hex')}@example.com`
const newSubject = () => randomBytes(8).toString('hex')

/** Goes to the provider and comes back. Returns the query that the page of the console sends on. */
async function visit(client: BrowserClient, script: ProviderScript, path = 'oidc/start', body: object = {}) {
  const started = await client.post(path, { provider: 'work', ...body })
  if (started.status !== 200) throw new Error(await started.text())
  return provider.visit(((await started.json()) as { url: string }).url, script)
}

async function signIn(script: ProviderScript, client = browser()) {
  const back = await visit(client, script)
  return { client, back, answer: await client.post('oidc/finish', { query: back.search }) }
}

/** A person with a verified address and a password. */
async function verifiedMember(of = app) {
  const { customerId } = await of.customer()
  const member = await signedInMember(of, customerId, 'owner', nowMs, url(of))
  await of.database.pool.query('UPDATE person SET email_verified_at = now() WHERE email = $1', [member.email])
  return { customerId, ...member }
}

const session = async (client: BrowserClient) => (await client.get('session')).json()
const identities = async (client: BrowserClient) =>
  ((await (await client.get('factors')).json()) as { identities: { id: string; provider: string; email: string }[] })
    .identities

describe('sign-in with another service', () => {
  test('makes an account with a proved address, where people sign up by themselves', async () => {
    const script = { subject: newSubject(), email: newMail(), name: 'Ada\u202e Lovelace\u0000' }
    const { client, back, answer } = await signIn(script)
    expect(back.pathname).toBe('/oidc')
    expect(await answer.json()).toEqual({ outcome: 'entered', param: null, return_to: '/' })
    expect(await session(client)).toMatchObject({
      person: { email: script.email, name: 'Ada Lovelace' },
      memberships: [{ role: 'owner', email: script.email }],
      has_second_factor: false,
    })
    const again = await signIn({ ...script, email: 'another@example.com', isEmailVerified: false })
    expect(await session(again.client)).toMatchObject({ person: { email: script.email } })
    expect(await identities(again.client)).toMatchObject([{ provider: 'work', email: 'another@example.com' }])
  })

  test('asks with PKCE, state and nonce, and keeps the secrets in a cookie that is Lax', async () => {
    const started = await browser().post('oidc/start', { provider: 'work' })
    const { searchParams } = new URL(((await started.json()) as { url: string }).url)
    expect(Object.fromEntries(searchParams)).toMatchObject({
      response_type: 'code',
      code_challenge_method: 'S256',
      scope: 'openid email profile',
      redirect_uri: `${url()}/oidc`,
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    })
    const [cookie] = started.headers.getSetCookie()
    expect(cookie).toMatch(/^sy_oidc=[\w.-]+; Expires=.* GMT; Path=\/; HttpOnly; SameSite=Lax$/)
    expect(cookie).not.toContain(searchParams.get('state'))
  })

  test('reads the address from the userinfo endpoint when the ID token has none', async () => {
    const script = { subject: newSubject(), email: newMail(), isMailInUserInfo: true }
    const { client } = await signIn(script)
    expect(await session(client)).toMatchObject({ person: { email: script.email } })
  })

  test('links an account by an address that both sides have verified', async () => {
    const { email } = await verifiedMember()
    const subject = newSubject()
    const { client } = await signIn({ subject, email: email.toUpperCase() })
    expect(await session(client)).toMatchObject({ person: { email } })
    expect(await session((await signIn({ subject })).client)).toMatchObject({ person: { email } })
    const { rows } = await app.database.pool.query(
      "SELECT FROM audit_entry WHERE action = 'identity.linked' AND subject = $1",
      [email],
    )
    expect(rows).toHaveLength(1)
  })

  test.each([
    ['the service has not verified', true, false],
    ['the service calls verified in another way', true, 'yes'],
    ['the person has not verified here', false, true],
  ])('does not link an account by an address that %s', async (_, isVerifiedHere, isEmailVerified) => {
    const { email } = await verifiedMember()
    if (!isVerifiedHere)
      await app.database.pool.query('UPDATE person SET email_verified_at = NULL WHERE email = $1', [email])
    const { client, answer } = await signIn({ subject: newSubject(), email, isEmailVerified })
    const refused = await readError(answer)
    expect(refused).toMatchObject({ status: 403, code: 'no_account_here' })
    expect(client.cookie).toBeUndefined()
    const unknown = await signIn({ subject: newSubject(), email: newMail(), isEmailVerified: false })
    expect(await readError(unknown.answer)).toMatchObject({ message: refused.message })
  })

  test('makes no account by invitation only, and opens no account of a disabled person', async () => {
    const client = browser(invited)
    const back = await visit(client, { subject: newSubject(), email: newMail() })
    const answer = await client.post('oidc/finish', { query: back.search })
    expect(await readError(answer)).toMatchObject({ code: 'no_account_here' })

    const script = { subject: newSubject(), email: newMail() }
    await signIn(script)
    await app.database.pool.query('UPDATE person SET disabled_at = now() WHERE email = $1', [script.email])
    expect(await readError((await signIn(script)).answer)).toMatchObject({ code: 'no_account_here' })
  })

  test('counts as one factor for an operator, and the pages ask for another one', async () => {
    const email = newMail()
    const { personId } = (await addPerson(app.database.pool, { email, installationRole: 'operator' }))!
    await noteVerified(app.database.pool, personId, nowMs)
    const client = new BrowserClient(url(), { via: '1.1 proxy' })
    const back = await visit(client, { subject: newSubject(), email })
    expect((await client.post('oidc/finish', { query: back.search })).status).toBe(200)
    expect(await session(client)).toMatchObject({ needs_second_factor: true })
    expect(await readError(await client.get('operator/overview'))).toMatchObject({ code: 'second_factor_required' })
  })

  test('waits for the second factor of a person who has one, and links nothing before', async () => {
    const { browser: owner, email } = await verifiedMember()
    const authenticator = new SoftwareAuthenticator(url())
    // biome-ignore lint/suspicious/noExplicitAny: the options are those of the browser's interface
    const options = (await (await owner.post('factors/passkeys/start')).json()) as any
    const added = await owner.post('factors/passkeys', { name: 'Key', passkey: authenticator.create(options) })
    const { recovery_codes: codes } = (await added.json()) as { recovery_codes: string[] }
    const { client, answer } = await signIn({ subject: newSubject(), email })
    expect(await answer.json()).toEqual({ outcome: 'factor', param: 'passkey', return_to: '/' })
    expect((await client.get('session')).status).toBe(401)
    expect(await identities(owner)).toEqual([])
    expect(await readError(await client.post('oidc/factor', {}))).toMatchObject({ param: 'passkey' })
    expect((await client.post('oidc/factor', { code: '000000' })).status).toBe(401)
    expect((await browser().post('oidc/factor', { code: codes[0] })).status).toBe(404)
    // biome-ignore lint/suspicious/noExplicitAny: as above
    const request = (await (await client.post('passkeys/sign-in/start')).json()) as any
    const entered = await client.post('oidc/factor', { passkey: authenticator.get(request) })
    expect(await entered.json()).toMatchObject({ person: { email }, has_second_factor: true })
    expect(await identities(owner)).toHaveLength(1)
    expect((await client.post('oidc/factor', { code: codes[0] })).status).toBe(404)
  })
})

describe('an attack on the sign-in is refused:', () => {
  const refused = { status: 401, code: 'sign_in_refused' }
  const finish = (client: BrowserClient, back: URL) => client.post('oidc/finish', { query: back.search })

  test.each<[string, (back: URL) => void]>([
    ['a forged state', back => back.searchParams.set('state', 'A'.repeat(43))],
    ['no state', back => back.searchParams.delete('state')],
    ['two states', back => back.searchParams.append('state', 'x')],
    ['a code that the service never gave', back => back.searchParams.set('code', 'made-up')],
    [
      'an error in place of a code',
      back => {
        back.searchParams.delete('code')
        back.searchParams.set('error', 'access_denied')
      },
    ],
  ])('%s', async (_, change) => {
    const client = browser()
    const back = await visit(client, { subject: newSubject(), email: newMail() })
    change(back)
    expect(await readError(await finish(client, back))).toMatchObject(refused)
    expect(client.cookie).toBeUndefined()
  })

  test('an answer that is replayed', async () => {
    const { client, back } = await signIn({ subject: newSubject(), email: newMail() })
    expect(await readError(await finish(client, back))).toMatchObject(refused)
    const other = browser()
    const mine = await visit(other, { subject: newSubject(), email: newMail() })
    mine.searchParams.set('code', back.searchParams.get('code')!)
    expect(await readError(await finish(other, mine))).toMatchObject(refused)
  })

  test('an answer that is used twice at the same time, with its cookie', async () => {
    const client = browser()
    const started = await client.post('oidc/start', { provider: 'work' })
    const cookie = started.headers.getSetCookie()[0]!.split(';')[0]!
    const script = { subject: newSubject(), email: newMail() }
    const back = provider.visit(((await started.json()) as { url: string }).url, script)
    const answers = await Promise.all(
      [1, 2, 3].map(() => browser().send('POST', 'oidc/finish', { query: back.search }, { cookie })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 401, 401])
  })

  test('the answer of another browser: its victim would sign in as the attacker', async () => {
    const back = await visit(browser(), { subject: newSubject(), email: newMail() })
    const victim = browser()
    expect(await readError(await finish(victim, back))).toMatchObject(refused)
    await visit(victim, {})
    expect(await readError(await finish(victim, back))).toMatchObject(refused)
    expect(victim.cookie).toBeUndefined()
  })

  test('a cookie that was changed, and one that is too old', async () => {
    const client = browser()
    const started = await client.post('oidc/start', { provider: 'work' })
    const script = { subject: newSubject(), email: newMail() }
    const back = provider.visit(((await started.json()) as { url: string }).url, script)
    const [name, value] = started.headers.getSetCookie()[0]!.split(';')[0]!.split('=') as [string, string]
    const [body, proof] = value.split('.') as [string, string]
    const fields = JSON.parse(Buffer.from(body, 'base64url').toString()) as object
    const forged = Buffer.from(JSON.stringify({ ...fields, returnTo: '//evil.example' })).toString('base64url')
    for (const cookie of [`${name}=${forged}.${proof}`, `${name}=${body}`, `${name}=.${proof}`, `${name}=x.y`]) {
      const answer = await browser().send('POST', 'oidc/finish', { query: back.search }, { cookie })
      expect(await readError(answer)).toMatchObject(refused)
    }
    nowMs += 600_000
    expect(await readError(await finish(client, back))).toMatchObject(refused)
  })

  test.each<[string, ProviderScript]>([
    ['another nonce', { claims: { nonce: 'A'.repeat(43) } }],
    ['no nonce', { claims: { nonce: undefined } }],
    ['another audience', { claims: { aud: 'another-client' } }],
    ['another issuer', { claims: { iss: 'https://evil.example' } }],
    ['a token that is too old', { claims: { iat: 1, exp: 2 } }],
    ['an unsigned token', { signature: 'none' }],
    ['a token signed by another key', { signature: 'other' }],
  ])('%s', async (_, script) => {
    const { client, answer } = await signIn({ subject: newSubject(), email: newMail(), ...script })
    expect(await readError(answer)).toMatchObject(refused)
    expect(client.cookie).toBeUndefined()
  })

  test.each([
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    '\\/evil.example',
    'javascript:alert(1)',
    '/\n/evil.example',
    'c/1',
  ])('an open redirect to %j', async return_to => {
    const answer = await browser().post('oidc/start', { provider: 'work', return_to })
    expect(await readError(answer)).toMatchObject({ status: 400, param: 'return_to' })
  })

  test('more fields, and services that are not configured', async () => {
    const more = await browser().post('oidc/start', { provider: 'work', redirect_uri: 'https://evil.example' })
    expect(more.status).toBe(400)
    expect((await browser().post('oidc/start', { provider: 'evil' })).status).toBe(404)
  })
})

test('a service that does not answer is named as the cause, and no secret is logged', async () => {
  const gone = await browser().post('oidc/start', { provider: 'gone' })
  expect(await readError(gone)).toMatchObject({ status: 503, code: 'sign_in_provider_unavailable' })
  const { answer, back } = await signIn({ subject: newSubject(), email: newMail(), tokenStatus: 500 })
  expect(await readError(answer)).toMatchObject({ status: 503, code: 'sign_in_provider_unavailable' })
  await signIn({ subject: newSubject(), email: 'logged@example.com', claims: { aud: 'x' } })
  const log = lines.join('\n')
  expect(log).toContain('a sign-in with another service failed')
  for (const secret of [
    provider.clientSecret,
    back.searchParams.get('code')!,
    back.searchParams.get('state')!,
    'logged@example.com',
  ])
    expect(log).not.toContain(secret)
})

describe('linking a service in the settings', () => {
  const link = async (client: BrowserClient, script: ProviderScript) => {
    const back = await visit(client, script, 'identities/start', { return_to: '/account' })
    return client.post('oidc/finish', { query: back.search })
  }

  test('needs no verified address, and then signs in', async () => {
    const { browser: client, email } = await verifiedMember()
    const subject = newSubject()
    const linked = await link(client, { subject, email: newMail(), isEmailVerified: false })
    expect(await linked.json()).toEqual({ outcome: 'linked', param: null, return_to: '/account' })
    expect(await session((await signIn({ subject })).client)).toMatchObject({ person: { email } })
    const [{ id }] = (await identities(client)) as [{ id: string; provider: string; email: string }]
    const stranger = await verifiedMember()
    expect((await stranger.browser.send('DELETE', `identities/${id}`)).status).toBe(404)
    expect((await client.send('DELETE', `identities/${id}`)).status).toBe(200)
    expect(await readError((await signIn({ subject })).answer)).toMatchObject({ code: 'no_account_here' })
  })

  test('is refused for an identity of another person, in another session, and without a confirmation', async () => {
    const [one, other] = [await verifiedMember(), await verifiedMember()]
    const subject = newSubject()
    await link(one.browser, { subject })
    expect(await readError(await link(other.browser, { subject }))).toMatchObject({
      status: 409,
      code: 'identity_in_use',
    })
    expect((await link(one.browser, { subject })).status).toBe(200)

    const back = await visit(one.browser, { subject: newSubject() }, 'identities/start')
    await one.browser.post('sign-in', { email: one.email, password: PASSWORD })
    expect(await readError(await one.browser.post('oidc/finish', { query: back.search }))).toMatchObject({
      code: 'sign_in_refused',
    })
    nowMs += 600_000
    for (const [method, path] of [
      ['POST', 'identities/start'],
      ['DELETE', `identities/${(await identities(one.browser))[0]!.id}`],
    ] as const)
      expect(
        await readError(await one.browser.send(method, path, method === 'POST' ? { provider: 'work' } : undefined)),
      ).toMatchObject({ code: 'confirmation_required' })
  })

  test('a session by password alone links nothing where a factor exists', async () => {
    const { browser: client, email } = await verifiedMember()
    await app.database.pool.query("UPDATE person SET totp_secret = '\\x00' WHERE email = $1", [email])
    const refused = await client.post('identities/start', { provider: 'work' })
    expect(await readError(refused)).toMatchObject({ code: 'second_factor_required' })
  })

  test('the last way to sign in stays', async () => {
    const script = { subject: newSubject(), email: newMail() }
    const { client } = await signIn(script)
    const [{ id }] = (await identities(client)) as [{ id: string; provider: string; email: string }]
    expect(await readError(await client.send('DELETE', `identities/${id}`))).toMatchObject({ code: 'last_way_in' })
    expect((await client.post('password', { new_password: 'a first long password' })).status).toBe(200)
    expect((await client.send('DELETE', `identities/${id}`)).status).toBe(200)
  })
})

test('a person without a password confirms a change at the service', async () => {
  const script = { subject: newSubject(), email: newMail() }
  const { client } = await signIn(script)
  nowMs += 600_000
  expect(await readError(await client.post('factors/totp/start'))).toMatchObject({ code: 'confirmation_required' })
  expect((await client.post('confirm', { password: 'any password' })).status).toBe(401)
  const confirm = async (more: ProviderScript) => {
    const back = await visit(client, { ...script, ...more }, 'oidc/confirm/start', { return_to: '/account' })
    return client.post('oidc/finish', { query: back.search })
  }
  const old = Math.floor(Date.now() / 1_000) - 3_600
  for (const more of [{ subject: newSubject() }, { claims: { auth_time: old } }, { claims: { auth_time: undefined } }])
    expect(await readError(await confirm(more))).toMatchObject({ code: 'sign_in_refused' })
  const former = client.cookie
  expect(await (await confirm({})).json()).toMatchObject({ outcome: 'confirmed', return_to: '/account' })
  expect(client.cookie).not.toBe(former)
  expect((await client.post('factors/totp/start')).status).toBe(200)
})

test('the audit log has what was done here', async () => {
  const { rows } = await app.database.pool.query<{ action: string }>('SELECT DISTINCT action FROM audit_entry')
  expect(rows.map(({ action }) => action)).toEqual(
    expect.arrayContaining(['person.signed_in', 'identity.linked', 'identity.removed']),
  )
})
