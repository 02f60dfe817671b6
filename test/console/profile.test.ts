import { expect, test, vi } from 'vitest'
import { startSmtpSink } from '../alerts/smtp-sink.ts'
import { BrowserClient, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

let nowMs = Date.now()
const clock = { epochMs: () => nowMs, monotonicMs: () => performance.now() }
const smtp = useResource(startSmtpSink, sink => sink.close())
const app = useTestApp(() => ({ clock, yaml: `smtp:\n  host: 127.0.0.1\n  port: ${smtp.port}\n  security: none\n` }))
const withoutMail = useTestApp({ clock })

async function person(of = app) {
  const { customerId } = await of.customer()
  return signedInMember(of, customerId, 'owner', nowMs)
}

const mailTo = (email: string, subject: string) =>
  vi.waitFor(() => {
    const found = smtp.mails.findLast(({ to, source }) => to === email && source.includes(`Subject: ${subject}`))
    if (found === undefined) throw new Error(`no mail to ${email}`)
    return found.source.replace(/=\r?\n/g, '').replace(/=3D/g, '=')
  }, 5_000)
const linkTo = async (email: string) =>
  /\/confirm-email#([\w-]{43})/.exec(await mailTo(email, 'Confirm your new address'))![1]!

const session = async (client: BrowserClient) => (await client.get('session')).json()

test('a person changes the name', async () => {
  const { browser: client, email } = await person()
  expect((await client.send('PATCH', 'person', { name: 'Grace Hopper' })).status).toBe(200)
  expect(await session(client)).toMatchObject({ person: { name: 'Grace Hopper', email } })
  for (const body of [{ name: 'x\u202ey' }, { name: 'x', email: 'a@example.com' }, { name: 'x', role: 'operator' }])
    expect((await client.send('PATCH', 'person', body)).status).toBe(400)
  expect(await session(client)).toMatchObject({ person: { name: 'Grace Hopper', role: null } })
})

test('a new address counts after its owner opened the link, and the former one gets a notice', async () => {
  const { browser: client, email } = await person()
  const newEmail = `new-${email}`
  await new BrowserClient(app.url).post('forgot', { email })
  const reset = /\/reset#([\w-]{43})/.exec(await mailTo(email, 'Set a new password'))![1]!
  expect(await (await client.post('person/email', { email: newEmail })).json()).toEqual({ mailed: true })
  const token = await linkTo(newEmail)
  expect(await session(client)).toMatchObject({ person: { email } })
  expect((await client.post('person/email/confirm', { token })).status).toBe(200)
  expect(await session(client)).toMatchObject({ person: { email: newEmail } })
  expect(await mailTo(email, 'Your e-mail address was changed')).toContain(newEmail)
  expect((await client.post('person/email/confirm', { token })).status).toBe(404)
  expect(
    (await new BrowserClient(app.url).post('reset', { token: reset, password: 'a new long password' })).status,
  ).toBe(404)
  expect((await new BrowserClient(app.url).post('sign-in', { email: newEmail, password: PASSWORD })).status).toBe(200)
  expect((await new BrowserClient(app.url).post('sign-in', { email, password: PASSWORD })).status).toBe(401)
  const { rows } = await app.database.pool.query(
    'SELECT email_verified_at IS NOT NULL AS verified FROM person WHERE email = $1',
    [newEmail],
  )
  expect(rows).toEqual([{ verified: true }])
})

test('the owner of a mistyped address cannot take the account, and the link ends with its time', async () => {
  const [{ browser: client, email }, stranger] = [await person(), await person()]
  await client.post('person/email', { email: `typo-${email}` })
  const token = await linkTo(`typo-${email}`)
  expect((await new BrowserClient(app.url).post('person/email/confirm', { token })).status).toBe(401)
  expect(await readError(await stranger.browser.post('person/email/confirm', { token }))).toMatchObject({
    code: 'link_expired',
  })
  expect(await session(client)).toMatchObject({ person: { email } })
  await client.post('person/email', { email: `late-${email}` })
  const late = await linkTo(`late-${email}`)
  nowMs += 86_400_001
  expect((await client.post('person/email/confirm', { token: late })).status).toBe(404)
})

test('an address of another account gets the same answer, and a mail that says so', async () => {
  const [{ browser: client }, other] = [await person(), await person()]
  expect(await (await client.post('person/email', { email: other.email })).json()).toEqual({ mailed: true })
  expect(await mailTo(other.email, 'You already have an account')).not.toContain('#')
})

test('a new address needs a confirmation, the second factor, and a server that sends mail', async () => {
  const { browser: client, email } = await person()
  await app.database.pool.query("UPDATE person SET totp_secret = '\\x00' WHERE email = $1", [email])
  const body = { email: 'x@example.com' }
  expect(await readError(await client.post('person/email', body))).toMatchObject({ code: 'second_factor_required' })
  nowMs += 600_000
  expect(await readError(await client.post('person/email', body))).toMatchObject({ code: 'confirmation_required' })
  const { browser: other } = await person(withoutMail)
  expect(await readError(await other.post('person/email', body))).toMatchObject({ code: 'mail_not_configured' })
})

test('the audit log has what was done here', async () => {
  const { rows } = await app.database.pool.query<{ action: string }>('SELECT DISTINCT action FROM audit_entry')
  expect(rows.map(({ action }) => action)).toEqual(
    expect.arrayContaining(['person.email_changed', 'person.name_changed']),
  )
})
