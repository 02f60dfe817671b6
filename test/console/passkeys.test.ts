import { describe, expect, test } from 'vitest'
import { BrowserClient, operatorToken, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { type Forgery, SoftwareAuthenticator } from '../harness/software-authenticator.ts'
import { useTestApp } from '../harness/use-test-app.ts'

let nowMs = Date.now()
const app = useTestApp({ clock: { epochMs: () => nowMs, monotonicMs: () => performance.now() } })
/** Passkeys need a name. */
const url = () => app.url.replace('127.0.0.1', 'localhost')
const browser = (headers?: Record<string, string>) => new BrowserClient(url(), headers)
const CONFIRMATION_MS = 600_000

const optionsOf = async (client: BrowserClient, path: string) =>
  // biome-ignore lint/suspicious/noExplicitAny: the options are those of the browser's interface
  (await (await client.post(path)).json()) as any

async function addPasskey(client: BrowserClient, forgery: Forgery = {}) {
  const authenticator = new SoftwareAuthenticator(url())
  const passkey = authenticator.create(await optionsOf(client, 'factors/passkeys/start'), forgery)
  const added = await client.post('factors/passkeys', { name: 'Phone', passkey })
  return { authenticator, added, passkey }
}

async function personWithPasskey(role: 'owner' | 'viewer' = 'owner') {
  const { customerId } = await app.customer()
  const { browser: client, email } = await signedInMember(app, customerId, role, nowMs, url())
  const { authenticator, added } = await addPasskey(client)
  const { recovery_codes: codes } = (await added.json()) as { recovery_codes: string[] }
  return { customerId, client, email, authenticator, codes }
}

async function signInWith(authenticator: SoftwareAuthenticator, forgery: Forgery = {}, client = browser()) {
  const passkey = authenticator.get(await optionsOf(client, 'passkeys/sign-in/start'), forgery)
  return { client, passkey, answer: await client.post('passkeys/sign-in', { passkey }) }
}

const factorsOf = async (client: BrowserClient) =>
  (await (await client.get('factors')).json()) as {
    passkeys: { id: string; name: string; last_used_at: string | null }[]
    recovery_codes_left: number
    is_in_use: boolean
  }

describe('a passkey', () => {
  test('signs in without an e-mail address and a password, as two factors', async () => {
    const { email, authenticator } = await personWithPasskey()
    const { client, answer } = await signInWith(authenticator)
    expect(answer.status).toBe(200)
    expect(await (await client.get('session')).json()).toMatchObject({ person: { email }, has_second_factor: true })
    const { passkeys } = await factorsOf(client)
    expect(passkeys).toMatchObject([{ name: 'Phone', last_used_at: new Date(nowMs).toISOString() }])
  })

  test('is asked for after the password, and a recovery code replaces it once', async () => {
    const { email, authenticator, codes } = await personWithPasskey()
    const client = browser()
    const signIn = (more: object) => client.post('sign-in', { email, password: PASSWORD, ...more })
    expect(await readError(await signIn({}))).toMatchObject({ code: 'second_factor_required', param: 'passkey' })
    const passkey = authenticator.get(await optionsOf(client, 'passkeys/sign-in/start'))
    expect(await readError(await client.post('sign-in', { email, password: 'wrong', passkey }))).toMatchObject({
      code: 'wrong_credentials',
    })
    const again = authenticator.get(await optionsOf(client, 'passkeys/sign-in/start'))
    expect(await (await signIn({ passkey: again })).json()).toMatchObject({ has_second_factor: true })
    expect((await browser().post('sign-in', { email, password: PASSWORD, code: codes[0] })).status).toBe(200)
    expect((await browser().post('sign-in', { email, password: PASSWORD, code: codes[0] })).status).toBe(401)
  })

  test('of another person is no second factor', async () => {
    const [one, other] = [await personWithPasskey(), await personWithPasskey()]
    const client = browser()
    const passkey = other.authenticator.get(await optionsOf(client, 'passkeys/sign-in/start'))
    const answer = await client.post('sign-in', { email: one.email, password: PASSWORD, passkey })
    expect(await readError(answer)).toMatchObject({ status: 401, code: 'wrong_passkey' })
  })

  test('confirms a change, where a password alone does not', async () => {
    const { client, authenticator } = await personWithPasskey()
    nowMs += CONFIRMATION_MS
    expect(await readError(await client.post('factors/totp/start'))).toMatchObject({ code: 'confirmation_required' })
    expect(await readError(await client.post('confirm', { password: PASSWORD }))).toMatchObject({ param: 'passkey' })
    const passkey = authenticator.get(await optionsOf(client, 'passkeys/confirm/start'))
    const former = client.cookie
    expect((await client.post('confirm', { passkey })).status).toBe(200)
    expect(client.cookie).not.toBe(former)
    expect((await client.post('factors/totp/start')).status).toBe(200)
  })

  test('that is the first factor ends the other sessions and gives recovery codes, a second one does not', async () => {
    const { customerId } = await app.customer()
    const { browser: client, email } = await signedInMember(app, customerId, 'owner', nowMs, url())
    const other = browser()
    await other.post('sign-in', { email, password: PASSWORD })
    const { added } = await addPasskey(client)
    expect(((await added.json()) as { recovery_codes: string[] }).recovery_codes).toHaveLength(10)
    expect((await other.get('session')).status).toBe(401)
    const second = await addPasskey(client)
    expect(await second.added.json()).toEqual({ recovery_codes: null })
    expect(await factorsOf(client)).toMatchObject({ recovery_codes_left: 10, is_in_use: true })
  })

  test('gets another name, is removed, and then opens nothing', async () => {
    const { client, authenticator, email } = await personWithPasskey()
    const { id } = (await factorsOf(client)).passkeys[0]!
    expect((await client.send('PATCH', `factors/passkeys/${id}`, { name: 'Blue key' })).status).toBe(200)
    expect((await factorsOf(client)).passkeys).toMatchObject([{ name: 'Blue key' }])
    const stranger = await personWithPasskey()
    for (const [method, body] of [
      ['PATCH', { name: 'Mine' }],
      ['DELETE', undefined],
    ] as const)
      expect((await stranger.client.send(method, `factors/passkeys/${id}`, body)).status).toBe(404)
    nowMs += CONFIRMATION_MS
    expect(await readError(await client.send('DELETE', `factors/passkeys/${id}`))).toMatchObject({
      code: 'confirmation_required',
    })
    const passkey = authenticator.get(await optionsOf(client, 'passkeys/confirm/start'))
    await client.post('confirm', { passkey })
    expect((await client.send('DELETE', `factors/passkeys/${id}`)).status).toBe(200)
    expect((await signInWith(authenticator)).answer.status).toBe(401)
    expect((await browser().post('sign-in', { email, password: PASSWORD })).status).toBe(200)
    expect(await factorsOf(client)).toMatchObject({ passkeys: [], recovery_codes_left: 0 })
  })

  test('lets an operator in from the network', async () => {
    const { token } = await operatorToken(app, 'passkey-op@example.com', nowMs)
    const here = browser()
    await here.post('welcome', { token, password: PASSWORD })
    const away = browser({ via: '1.1 proxy' })
    await away.post('sign-in', { email: 'passkey-op@example.com', password: PASSWORD })
    expect(await readError(await away.get('operator/overview'))).toMatchObject({ code: 'second_factor_required' })
    expect(await readError(await away.post('factors/passkeys/start'))).toMatchObject({ code: 'second_factor_required' })
    const { authenticator } = await addPasskey(here)
    const again = browser({ via: '1.1 proxy' })
    await signInWith(authenticator, {}, again)
    expect((await again.get('operator/overview')).status).toBe(200)
  })

  test('of an operator is removed by a new link of the operator at the machine', async () => {
    const { token, personId } = await operatorToken(app, 'lost-key-op@example.com', nowMs)
    const client = browser()
    await client.post('welcome', { token, password: PASSWORD })
    const { authenticator } = await addPasskey(client)
    const { transaction } = await import('../../src/base/db/pool.ts')
    const { makeWelcomeLink } = await import('../../src/identity/people/links.ts')
    const link = await transaction(app.database.pool, sql => makeWelcomeLink(sql, personId, nowMs))
    await browser().post('welcome', { token: link.split('#')[1], password: 'a new long password' })
    expect((await signInWith(authenticator)).answer.status).toBe(401)
  })
})

describe('a forged answer of an authenticator is refused:', () => {
  test.each<[string, Forgery]>([
    ['another origin', { origin: 'https://evil.example' }],
    ['the same host on another port', { origin: 'http://localhost:1' }],
    ['another RP id', { rpId: 'evil.example' }],
    ['a challenge that was made up', { challenge: 'A'.repeat(72) }],
    ['another type', { type: 'webauthn.create' }],
    ['no verification of the user', { isUnverified: true }],
    ['a signature by another key', { hasForgedSignature: true }],
    ['the handle of another person', { userHandle: Buffer.alloc(16).toString('base64url') }],
  ])('%s', async (_, forgery) => {
    const { authenticator } = await personWithPasskey()
    const { answer, client } = await signInWith(authenticator, forgery)
    expect(await readError(answer)).toMatchObject({ status: 401, code: 'wrong_passkey' })
    expect(client.cookie).toBeUndefined()
    expect((await signInWith(authenticator)).answer.status).toBe(200)
  })

  test.each<[string, Forgery]>([
    ['another origin', { origin: 'https://evil.example' }],
    ['another RP id', { rpId: 'evil.example' }],
    ['a challenge that was made up', { challenge: 'A'.repeat(72) }],
    ['no verification of the user', { isUnverified: true }],
  ])('%s, when a passkey is added', async (_, forgery) => {
    const { customerId } = await app.customer()
    const { browser: client } = await signedInMember(app, customerId, 'owner', nowMs, url())
    const { added } = await addPasskey(client, forgery)
    expect(await readError(added)).toMatchObject({ status: 401, code: 'wrong_passkey' })
    expect((await factorsOf(client)).passkeys).toEqual([])
  })

  test('a passkey that nobody added', async () => {
    const stranger = new SoftwareAuthenticator(url())
    const options = { challenge: 'x', rp: { id: 'localhost' }, user: { id: 'eHg' } }
    stranger.create(options)
    expect(await readError((await signInWith(stranger)).answer)).toMatchObject({ code: 'wrong_passkey' })
  })

  test('a copy of a passkey with a count that is behind', async () => {
    const { authenticator } = await personWithPasskey()
    await signInWith(authenticator)
    await signInWith(authenticator)
    authenticator.count = 0
    expect(await readError((await signInWith(authenticator)).answer)).toMatchObject({ code: 'wrong_passkey' })
    authenticator.count = 1
    expect((await signInWith(authenticator)).answer.status).toBe(401)
    expect((await signInWith(authenticator)).answer.status).toBe(200)
  })

  test('garbage in place of the answer', async () => {
    const client = browser()
    await client.post('passkeys/sign-in/start')
    for (const passkey of [null, 'x', {}, { id: 'x', rawId: 'x', type: 'public-key', response: {} }])
      expect((await client.post('passkeys/sign-in', { passkey })).status).toBe(400)
    const response = { clientDataJSON: 'e30', authenticatorData: 'AA', signature: 'AA' }
    const hollow = { id: 'x', rawId: 'x', type: 'public-key', clientExtensionResults: {}, response }
    expect((await client.post('passkeys/sign-in', { passkey: hollow })).status).toBe(401)
    const more = { passkey: hollow, person_id: 'x' }
    expect(await readError(await client.post('passkeys/sign-in', more))).toMatchObject({ status: 400 })
  })
})

describe('a challenge', () => {
  test('works once, also when two requests use it at the same time', async () => {
    const { authenticator } = await personWithPasskey()
    const { client, passkey } = await signInWith(authenticator)
    expect(await readError(await client.post('passkeys/sign-in', { passkey }))).toMatchObject({ code: 'wrong_passkey' })
    const twice = browser()
    const both = authenticator.get(await optionsOf(twice, 'passkeys/sign-in/start'))
    const answers = await Promise.all([1, 2, 3].map(() => twice.post('passkeys/sign-in', { passkey: both })))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 401, 401])
  })

  test('is used up by an answer that was wrong', async () => {
    const { authenticator } = await personWithPasskey()
    const client = browser()
    const options = await optionsOf(client, 'passkeys/sign-in/start')
    const forged = authenticator.get(options, { hasForgedSignature: true })
    expect((await client.post('passkeys/sign-in', { passkey: forged })).status).toBe(401)
    expect((await client.post('passkeys/sign-in', { passkey: authenticator.get(options) })).status).toBe(401)
  })

  test('belongs to the browser that asked for it', async () => {
    const { authenticator } = await personWithPasskey()
    const [mine, theirs] = [browser(), browser()]
    const passkey = authenticator.get(await optionsOf(mine, 'passkeys/sign-in/start'))
    await optionsOf(theirs, 'passkeys/sign-in/start')
    for (const client of [theirs, browser()])
      expect(await readError(await client.post('passkeys/sign-in', { passkey }))).toMatchObject({
        code: 'wrong_passkey',
      })
    expect((await mine.post('passkeys/sign-in', { passkey })).status).toBe(200)
  })

  test('belongs to its session and its purpose', async () => {
    const { client, authenticator, email } = await personWithPasskey()
    const other = browser()
    await signInWith(authenticator, {}, other)
    const forConfirm = authenticator.get(await optionsOf(client, 'passkeys/confirm/start'))
    expect((await other.post('confirm', { passkey: forConfirm })).status).toBe(401)
    const forSignIn = authenticator.get(await optionsOf(client, 'passkeys/confirm/start'))
    await client.post('passkeys/sign-in/start')
    expect((await client.post('sign-in', { email, password: PASSWORD, passkey: forSignIn })).status).toBe(401)
    expect((await client.post('passkeys/sign-in', { passkey: forSignIn })).status).toBe(401)
    const made = new SoftwareAuthenticator(url()).create(await optionsOf(client, 'factors/passkeys/start'))
    expect((await other.post('factors/passkeys', { name: 'Theirs', passkey: made })).status).toBe(401)
  })

  test('is too old after five minutes', async () => {
    const { authenticator } = await personWithPasskey()
    const client = browser()
    const passkey = authenticator.get(await optionsOf(client, 'passkeys/sign-in/start'))
    nowMs += 300_000
    expect((await client.post('passkeys/sign-in', { passkey })).status).toBe(401)
  })
})

test('a session by password alone adds no passkey where a factor exists', async () => {
  const { client, authenticator } = await personWithPasskey()
  await app.database.pool.query('UPDATE person_session SET has_second_factor = false')
  const { id } = (await factorsOf(client)).passkeys[0]!
  for (const [method, path, body] of [
    ['POST', 'factors/passkeys/start', {}],
    ['POST', 'factors/totp/start', {}],
    ['PATCH', `factors/passkeys/${id}`, { name: 'x' }],
    ['DELETE', `factors/passkeys/${id}`, undefined],
  ] as const)
    expect(await readError(await client.send(method, path, body))).toMatchObject({ code: 'second_factor_required' })
  expect((await signInWith(authenticator)).answer.status).toBe(200)
})

test('a passkey that is on the server already is not added again', async () => {
  const { client, authenticator } = await personWithPasskey()
  void authenticator
  const options = await optionsOf(client, 'factors/passkeys/start')
  expect(options.excludeCredentials).toHaveLength(1)
  const twin = new SoftwareAuthenticator(url())
  const passkey = twin.create(options)
  expect((await client.post('factors/passkeys', { name: 'One', passkey })).status).toBe(200)
  const stranger = await personWithPasskey()
  const theirs = twin.create(await optionsOf(stranger.client, 'factors/passkeys/start'))
  await app.database.pool.query('UPDATE person_passkey SET credential_id = $1 WHERE name = $2', [theirs.id, 'One'])
  expect((await stranger.client.post('factors/passkeys', { name: 'Two', passkey: theirs })).status).toBe(401)
})

test('the last way to sign in stays', async () => {
  const { client, email } = await personWithPasskey()
  await app.database.pool.query('UPDATE person SET password_hash = NULL WHERE email = $1', [email])
  const { id } = (await factorsOf(client)).passkeys[0]!
  const refused = await client.send('DELETE', `factors/passkeys/${id}`)
  expect(await readError(refused)).toMatchObject({ status: 409, code: 'last_way_in' })
  expect((await client.post('password', { new_password: 'a first long password' })).status).toBe(200)
  expect((await client.send('DELETE', `factors/passkeys/${id}`)).status).toBe(200)
  expect((await browser().post('sign-in', { email, password: 'a first long password' })).status).toBe(200)
})

test('a first password needs a confirmation, and nobody with a password leaves it out', async () => {
  const { client, email } = await personWithPasskey()
  const refused = await client.post('password', { new_password: 'a first long password' })
  expect(await readError(refused)).toMatchObject({ status: 401, code: 'wrong_credentials' })
  await app.database.pool.query('UPDATE person SET password_hash = NULL WHERE email = $1', [email])
  nowMs += CONFIRMATION_MS
  const late = await client.post('password', { new_password: 'a first long password' })
  expect(await readError(late)).toMatchObject({ status: 403, code: 'confirmation_required' })
})

test('passkeys need a name: there are none at an IP address', async () => {
  const { customerId } = await app.customer()
  const { browser: client } = await signedInMember(app, customerId, 'owner', nowMs)
  expect(await (await client.get('config')).json()).toMatchObject({ has_passkeys: false })
  expect(await (await browser().get('config')).json()).toMatchObject({ has_passkeys: true })
  for (const path of ['passkeys/sign-in/start', 'passkeys/confirm/start', 'factors/passkeys/start'])
    expect(await readError(await client.post(path))).toMatchObject({ status: 409, code: 'passkeys_unavailable' })
})

test('many wrong passkeys from one network have to wait', async () => {
  const stranger = new SoftwareAuthenticator(url())
  stranger.create({ challenge: 'x', rp: { id: 'localhost' }, user: { id: 'eHg' } })
  const client = browser()
  let status = 0
  for (let n = 0; n < 60 && status !== 429; n++) {
    status = (await signInWith(stranger, {}, client)).answer.status
  }
  expect(status).toBe(429)
  nowMs += 86_400_001
  const { authenticator } = await personWithPasskey()
  expect((await signInWith(authenticator)).answer.status).toBe(200)
})
