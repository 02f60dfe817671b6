import { Secret, TOTP } from 'otpauth'
import { expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { lockPerson } from '../../src/identity/people/persons.ts'
import { confirmSession, openSession, renewSession } from '../../src/identity/people/sessions.ts'
import { startSmtpSink } from '../alerts/smtp-sink.ts'
import { BrowserClient, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { CLIENT_ID, startScriptedProvider } from '../harness/scripted-provider.ts'
import { SoftwareAuthenticator } from '../harness/software-authenticator.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

let nowMs = Date.now()
const smtp = useResource(
  async () => ({ sink: await startSmtpSink() }),
  ({ sink }) => sink.close(),
)
const provider = useResource(startScriptedProvider, each => each.close())
const app = useTestApp(() => ({
  clock: { epochMs: () => nowMs, monotonicMs: () => performance.now() },
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

// biome-ignore lint/suspicious/noExplicitAny: the answers are those of several addresses
const json = async (answer: Promise<Response>): Promise<any> => {
  const response = await answer
  expect(response.status).toBe(200)
  return await response.json()
}
const mailTo = (email: string, subject: string) =>
  vi.waitFor(() => {
    const mail = smtp.sink.mails.find(each => each.to === email && each.source.includes(`Subject: ${subject}`))
    expect(mail).toBeDefined()
    return mail!.source.replace(/=\r?\n/g, '')
  }, 90_000)

async function addPasskey(client: BrowserClient): Promise<void> {
  const options = await json(client.post('factors/passkeys/start'))
  await json(
    client.post('factors/passkeys', { name: 'phone', passkey: new SoftwareAuthenticator(url()).create(options) }),
  )
}

async function addApp(client: BrowserClient): Promise<void> {
  const { secret } = await json(client.post('factors/totp/start'))
  nowMs += 30_000
  const code = new TOTP({ secret: Secret.fromBase32(secret), period: 30 }).generate({ timestamp: nowMs })
  await json(client.post('factors/totp', { code }))
}

async function linkService(client: BrowserClient): Promise<void> {
  const started = await json(client.post('identities/start', { provider: 'work' }))
  const { search } = provider.visit(started.url, { subject: `subject ${nowMs++}` })
  expect(await json(client.post('oidc/finish', { query: search }))).toMatchObject({ outcome: 'linked' })
}

const personIdOf = async (email: string) =>
  (await app.database.pool.query<{ id: string }>('SELECT person_id AS id FROM person WHERE email = $1', [email]))
    .rows[0]!.id

interface Change {
  readonly before?: (client: BrowserClient) => Promise<void>
  readonly change: (client: BrowserClient, email: string) => Promise<unknown>
}

const nothing = async () => {}
const changes: readonly (readonly [string, Change])[] = [
  ['an app is added', { change: addApp }],
  ['an app is removed', { before: addApp, change: client => json(client.send('DELETE', 'factors/totp')) }],
  ['recovery codes are made', { before: addApp, change: client => json(client.post('factors/recovery-codes')) }],
  ['a passkey is added', { change: addPasskey }],
  ['a second passkey is added', { before: addPasskey, change: addPasskey }],
  [
    'a passkey is removed',
    {
      before: addPasskey,
      async change(client) {
        const { passkeys } = await json(client.get('factors'))
        await json(client.send('DELETE', `factors/passkeys/${passkeys[0].id}`))
      },
    },
  ],
  ['a service is linked', { change: linkService }],
  [
    'a service is unlinked',
    {
      before: linkService,
      async change(client) {
        const { identities } = await json(client.get('factors'))
        await json(client.send('DELETE', `identities/${identities[0].id}`))
      },
    },
  ],
  [
    'the e-mail address changes',
    {
      async change(client, email) {
        const next = `new-${email}`
        await json(client.post('person/email', { email: next }))
        const [, token] = /confirm-email#([\w-]{43})/.exec(await mailTo(next, 'Confirm your new address'))!
        await json(client.post('person/email/confirm', { token }))
      },
    },
  ],
  [
    'the password changes',
    {
      change: client =>
        json(client.post('password', { current_password: PASSWORD, new_password: 'another long password' })),
    },
  ],
]

test.each(changes)(
  'when %s, the other sessions end, and this one gets another token',
  async (_, { before = nothing, change }) => {
    const { customerId } = await app.customer()
    const { browser: client, email } = await signedInMember(app, customerId, 'owner', nowMs, url())
    await before(client)
    // A session of the same person in another browser, and a program that knows the token of this one.
    const person = { personId: await personIdOf(email), installationRole: null }
    await openSession(app.database.pool, person, { address: '127.0.0.1', userAgent: 'other' }, nowMs)
    const cookie = client.cookie!
    expect((await json(client.get('sessions'))).data).toHaveLength(2)

    await change(client, email)
    expect((await json(client.get('sessions'))).data).toMatchObject([{ is_current: true }])
    expect(client.cookie).not.toBe(cookie)
    expect((await browser().send('GET', 'session', undefined, { cookie })).status).toBe(401)
  },
)

test('a confirmation that brings the second factor ends the former token at once', async () => {
  const { customerId } = await app.customer()
  const { browser: client, email } = await signedInMember(app, customerId, 'owner', nowMs, url())
  const { secret } = await json(client.post('factors/totp/start'))
  const codeNow = () => new TOTP({ secret: Secret.fromBase32(secret), period: 30 }).generate({ timestamp: nowMs })
  await json(client.post('factors/totp', { code: codeNow() }))
  await app.database.pool.query(
    'UPDATE person_session SET has_second_factor = false WHERE person_id = (SELECT person_id FROM person WHERE email = $1)',
    [email],
  )
  nowMs += 30_000
  const cookie = client.cookie!
  await json(client.post('confirm', { code: codeNow() }))
  expect((await browser().send('GET', 'session', undefined, { cookie })).status).toBe(401)
  expect(await json(client.get('session'))).toMatchObject({ has_second_factor: true })
})

test('a change that ran while the token was renewed is refused', async () => {
  const { customerId } = await app.customer()
  const { browser: client, email } = await signedInMember(app, customerId, 'owner', nowMs, url())
  await addPasskey(client)
  const { passkeys } = await json(client.get('factors'))
  const personId = await personIdOf(email)
  const { late } = await transaction(app.database.pool, async sql => {
    await lockPerson(sql, personId)
    const late = client.send('DELETE', `factors/passkeys/${passkeys[0].id}`)
    // The request has passed the check of its session once it waits for the person.
    await vi.waitFor(async () => {
      const waiting = await app.database.pool.query("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
      expect(waiting.rowCount).toBeGreaterThan(0)
    }, 90_000)
    await sql.query("UPDATE person_session SET token_hash = sha256('another') WHERE person_id = $1", [personId])
    return { late }
  })
  expect(await readError(await late)).toMatchObject({ status: 401, code: 'not_signed_in' })
})

test('a mail says that a service was linked by the e-mail address', async () => {
  const { customerId } = await app.customer()
  const withPassword = await signedInMember(app, customerId, 'owner', nowMs, url())
  const withFactor = await signedInMember(app, customerId, 'owner', nowMs, url())
  await addPasskey(withFactor.browser)
  for (const { email } of [withPassword, withFactor])
    await app.database.pool.query('UPDATE person SET email_verified_at = now() WHERE email = $1', [email])
  const enter = async (email: string) => {
    const client = browser()
    const started = await json(client.post('oidc/start', { provider: 'work' }))
    const claims = { subject: `subject of ${email}`, email }
    return {
      client,
      answer: await json(client.post('oidc/finish', { query: provider.visit(started.url, claims).search })),
    }
  }
  expect((await enter(withPassword.email)).answer).toMatchObject({ outcome: 'entered' })
  await mailTo(withPassword.email, 'Another sign-in was linked')

  expect((await enter(withFactor.email)).answer).toMatchObject({ outcome: 'factor' })
  const { recovery_codes: codes } = await json(withFactor.browser.post('factors/recovery-codes'))
  const { client } = await enter(withFactor.email)
  await json(client.post('oidc/factor', { code: codes[0] }))
  await mailTo(withFactor.email, 'Another sign-in was linked')
})

test('a new password takes back the link to a new address, which would give the account away when its person opens it', async () => {
  const { customerId } = await app.customer()
  const { browser: thief, email } = await signedInMember(app, customerId, 'owner', nowMs, url())
  const address = `thief-of-${email}`
  await json(thief.post('person/email', { email: address }))
  const [, token] = /confirm-email#([\w-]{43})/.exec(await mailTo(address, 'Confirm your new address'))!
  const victim = browser()
  await json(victim.post('forgot', { email }))
  const [, reset] = /reset#([\w-]{43})/.exec(await mailTo(email, 'Set a new password'))!
  await app.database.pool.query('UPDATE person SET email_verified_at = now() WHERE email = $1', [email])
  await json(victim.post('reset', { token: reset, password: 'another long password' }))
  await json(victim.post('sign-in', { email, password: 'another long password' }))
  expect(await readError(await victim.post('person/email/confirm', { token }))).toMatchObject({ code: 'link_expired' })
  expect(await json(victim.get('session'))).toMatchObject({ person: { email } })
})

test('a confirmation that began before a change of the ways in gives no token', async () => {
  const { customerId } = await app.customer()
  const { email } = await signedInMember(app, customerId, 'owner', nowMs, url())
  const { pool } = app.database
  const { rows } = await pool.query<{ sessionId: string; tokenHash: Buffer; personId: string }>(
    `SELECT session_id AS "sessionId", token_hash AS "tokenHash", person_id AS "personId"
     FROM person_session JOIN person USING (person_id) WHERE email = $1`,
    [email],
  )
  const { sessionId, tokenHash, personId } = rows[0]!
  const session = { sessionId, tokenHash, expiresAt: new Date(nowMs + 3_600_000) }
  await renewSession(pool, { ...session, person: { personId } as never }, nowMs)
  const late = confirmSession(pool, session, { hasSecondFactor: false }, nowMs)
  await expect(late).rejects.toMatchObject({ code: 'not_signed_in' })
})
