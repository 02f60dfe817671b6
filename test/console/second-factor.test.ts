import { Secret, TOTP } from 'otpauth'
import { expect, test } from 'vitest'
import { BrowserClient, operatorToken, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

let nowMs = Date.now()
const app = useTestApp({ clock: { epochMs: () => nowMs, monotonicMs: () => performance.now() } })
const browser = (headers?: Record<string, string>) => new BrowserClient(app.url, headers)
const codeOf = (secret: string) => new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: nowMs })
const nextStep = () => {
  nowMs += 60_000
}

async function enrol(client: BrowserClient) {
  const { secret } = (await (await client.post('factors/totp/start')).json()) as { secret: string }
  const added = await client.post('factors/totp', { code: codeOf(secret) })
  const { recovery_codes: codes } = (await added.json()) as { recovery_codes: string[] }
  nextStep()
  return { secret, codes }
}

async function personWithApp() {
  const { customerId } = await app.customer()
  const { browser: client, email } = await signedInMember(app, customerId, 'owner', nowMs)
  const signIn = (code?: string, password = PASSWORD) =>
    browser().post('sign-in', { email, password, ...(code && { code }) })
  return { client, email, customerId, signIn, ...(await enrol(client)) }
}

test('signing in takes the code of the authenticator app, and no code works twice', async () => {
  const { signIn, secret } = await personWithApp()
  expect(await readError(await signIn())).toMatchObject({ status: 403, code: 'second_factor_required', param: 'code' })
  expect(await readError(await signIn('000000'))).toMatchObject({ status: 401, code: 'wrong_code' })
  const code = codeOf(secret)
  expect(await (await signIn(code)).json()).toMatchObject({ has_second_factor: true })
  expect(await readError(await signIn(code))).toMatchObject({ code: 'wrong_code' })
  nextStep()
  const same = codeOf(secret)
  const answers = await Promise.all([signIn(same), signIn(same), signIn(same)])
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 401, 401])
})

test('a recovery code works once', async () => {
  const { signIn, codes, client } = await personWithApp()
  expect(codes).toHaveLength(10)
  expect((await signIn(codes[0]!.toUpperCase())).status).toBe(200)
  expect((await signIn(codes[0])).status).toBe(401)
  expect(await (await client.get('factors')).json()).toMatchObject({
    recovery_codes_left: 9,
    has_totp: true,
    is_in_use: true,
  })
})

test('passwords and codes have one count, which a right password does not clear', async () => {
  const { signIn, secret } = await personWithApp()
  for (let n = 0; n < 3; n++) await signIn(undefined, 'wrong')
  expect((await signIn()).status).toBe(403)
  for (let n = 0; n < 3; n++) expect((await signIn('000000')).status).toBe(401)
  expect(await readError(await signIn(codeOf(secret)))).toMatchObject({ status: 429, code: 'too_many_attempts' })
  nowMs += 1_000
  expect((await signIn()).status).toBe(403)
  expect((await signIn('abcde-abcde-abcde-abcde')).status).toBe(401)
  expect((await signIn(codeOf(secret))).status).toBe(429)
  nowMs += 60_000
  expect((await signIn(codeOf(secret))).status).toBe(200)
})

test('a session of the password alone changes no factor and no password', async () => {
  const { customerId } = await app.customer()
  const { browser: first, email } = await signedInMember(app, customerId, 'owner', nowMs)
  const { codes } = await enrol(first)
  // Such a session is made by hand: signing in makes none.
  const second = browser()
  await second.post('sign-in', { email, password: PASSWORD, code: codes[0]! })
  await app.database.pool.query('UPDATE person_session SET has_second_factor = false')
  for (const [method, path, body] of [
    ['POST', 'factors/totp/start', {}],
    ['POST', 'factors/totp', { code: '123456' }],
    ['DELETE', 'factors/totp', undefined],
    ['POST', 'factors/recovery-codes', {}],
    ['POST', 'password', { current_password: PASSWORD, new_password: 'another long password' }],
  ] as const)
    expect(await readError(await second.send(method, path, body))).toMatchObject({ code: 'second_factor_required' })
})

test('adding an app ends the other sessions, and changes need a confirmation with its code', async () => {
  const { customerId } = await app.customer()
  const { browser: client, email } = await signedInMember(app, customerId, 'owner', nowMs)
  const other = browser()
  await other.post('sign-in', { email, password: PASSWORD })
  const { secret } = await enrol(client)
  expect((await other.get('session')).status).toBe(401)
  nowMs += 601_000
  expect(await readError(await client.send('DELETE', 'factors/totp'))).toMatchObject({ code: 'confirmation_required' })
  expect(await readError(await client.post('confirm', { password: PASSWORD }))).toMatchObject({ param: 'code' })
  expect((await client.post('confirm', { code: codeOf(secret) })).status).toBe(200)
  expect((await client.send('DELETE', 'factors/totp')).status).toBe(200)
  expect((await browser().post('sign-in', { email, password: PASSWORD })).status).toBe(200)
})

test('a confirmation changes the token, and the former one confirms nothing', async () => {
  const { customerId } = await app.customer()
  const { browser: client, email } = await signedInMember(app, customerId, 'owner', nowMs)
  const former = client.cookie!
  expect((await client.post('confirm', { password: PASSWORD })).status).toBe(200)
  expect(client.cookie).not.toBe(former)
  const late = (method: string, path: string) => browser().send(method, path, undefined, { cookie: former })
  expect((await late('GET', 'session')).status).toBe(200)
  expect(await readError(await late('POST', 'factors/totp/start'))).toMatchObject({ code: 'confirmation_required' })
  nowMs += 31_000
  expect((await late('GET', 'session')).status).toBe(401)
  expect(await (await client.get('session')).json()).toMatchObject({ person: { email } })
})

test('operators need a second factor, except in a browser on this machine', async () => {
  const customer = await app.customer()
  const { token } = await operatorToken(app, 'factor-op@example.com', nowMs)
  const here = browser()
  await here.post('welcome', { token, password: PASSWORD })
  const paths = ['operator/overview', `customers/${customer.customerId}/credits`]
  const away = (path: string, headers: Record<string, string>) =>
    browser().send('GET', path, undefined, { cookie: here.cookie!, ...headers })
  for (const path of paths) {
    expect((await here.get(path)).status).toBe(200)
    for (const headers of [{ 'x-forwarded-for': '127.0.0.1' }, { forwarded: 'for=127.0.0.1' }, { via: '1.1 proxy' }])
      expect(await readError(await away(path, headers))).toMatchObject({ status: 403, code: 'second_factor_required' })
  }
  expect(await (await away('session', { via: '1.1 proxy' })).json()).toMatchObject({ needs_second_factor: true })
  await enrol(here)
  for (const path of paths) expect((await away(path, { via: '1.1 proxy' })).status).toBe(200)
})

test('a new link of the operator removes the lost app', async () => {
  const { token } = await operatorToken(app, 'lost-op@example.com', nowMs)
  const client = browser()
  await client.post('welcome', { token, password: PASSWORD })
  await enrol(client)
  await app.database.pool.query("DELETE FROM person_token WHERE purpose = 'welcome'")
  const { transaction } = await import('../../src/base/db/pool.ts')
  const { makeWelcomeLink } = await import('../../src/identity/people/links.ts')
  const { findPerson } = await import('../../src/identity/people/persons.ts')
  const link = await transaction(app.database.pool, async sql =>
    makeWelcomeLink(sql, (await findPerson(sql, 'lost-op@example.com'))!.personId, nowMs),
  )
  expect((await browser().post('welcome', { token: link.split('#')[1], password: 'a new long password' })).status).toBe(
    200,
  )
  const again = await browser().post('sign-in', { email: 'lost-op@example.com', password: 'a new long password' })
  expect(again.status).toBe(200)
})

test('the database has neither the secret nor the recovery codes', async () => {
  const { secret, codes } = await personWithApp()
  const { rows } = await app.database.pool.query<{ row: string }>(
    'SELECT person::text AS row FROM person UNION ALL SELECT person_recovery_code::text FROM person_recovery_code',
  )
  const text = rows.map(({ row }) => row).join('\n')
  expect(text).not.toContain(secret)
  expect(text).not.toContain(Buffer.from(secret).toString('hex'))
  expect(text).not.toContain(codes[0])
})
