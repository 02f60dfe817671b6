import { Secret, TOTP } from 'otpauth'
import { expect, test, vi } from 'vitest'
import { startSmtpSink } from '../alerts/smtp-sink.ts'
import { type BrowserClient, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { SoftwareAuthenticator } from '../harness/software-authenticator.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

let nowMs = Date.now()
const smtp = useResource(startSmtpSink, sink => sink.close())
const app = useTestApp(() => ({
  clock: { epochMs: () => nowMs, monotonicMs: () => performance.now() },
  yaml: `smtp:\n  host: 127.0.0.1\n  port: ${smtp.port}\n  security: none\n`,
}))
const url = () => app.url.replace('127.0.0.1', 'localhost')

async function person() {
  const { customerId } = await app.customer()
  const { browser, email } = await signedInMember(app, customerId, 'owner', nowMs, url())
  const subjects = () =>
    smtp.mails.filter(({ to }) => to === email).map(({ source }) => /^Subject: (.*)$/m.exec(source)?.[1])
  return { browser, email, subjects }
}

// biome-ignore lint/suspicious/noExplicitAny: the answers are those of several addresses
const answer = async (response: Promise<Response>) => (await response).json() as Promise<any>

async function addPasskey(browser: BrowserClient): Promise<void> {
  const options = await answer(browser.post('factors/passkeys/start'))
  const passkey = new SoftwareAuthenticator(url()).create(options)
  expect((await browser.post('factors/passkeys', { name: 'https://evil.example', passkey })).status).toBe(200)
}

test('a mail says that the password has changed', async () => {
  const { browser, subjects } = await person()
  const change = { current_password: PASSWORD, new_password: 'another long password' }
  expect((await browser.post('password', change)).status).toBe(200)
  await vi.waitFor(() => expect(subjects()).toEqual(['Your password was changed']), 20_000)
})

test('a mail says that an authenticator app was added or removed, and that recovery codes were made', async () => {
  const { browser, subjects } = await person()
  const { secret } = await answer(browser.post('factors/totp/start'))
  const code = new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: nowMs })
  expect((await browser.post('factors/totp', { code })).status).toBe(200)
  nowMs += 60_000
  expect((await browser.post('factors/recovery-codes')).status).toBe(200)
  expect((await browser.send('DELETE', 'factors/totp')).status).toBe(200)
  await vi.waitFor(
    () =>
      expect(subjects().sort()).toEqual([
        'An authenticator app was added',
        'New recovery codes were made',
        'Your authenticator app was removed',
      ]),
    20_000,
  )
})

test('a mail says that a passkey was added or removed, without the name that the person gave it', async () => {
  const { browser, email, subjects } = await person()
  await addPasskey(browser)
  const { passkeys } = await answer(browser.get('factors'))
  expect((await browser.send('DELETE', `factors/passkeys/${passkeys[0].id}`)).status).toBe(200)
  await vi.waitFor(() => expect(subjects().sort()).toEqual(['A passkey was added', 'A passkey was removed']), 20_000)
  expect(smtp.mails.filter(({ to, source }) => to === email && source.includes('evil'))).toEqual([])
})

test('a change that is refused sends no mail', async () => {
  const { browser, subjects } = await person()
  const wrong = { current_password: 'a wrong password', new_password: 'another long password' }
  expect((await browser.post('password', wrong)).status).toBe(401)
  const right = { current_password: PASSWORD, new_password: 'another long password' }
  expect((await browser.post('password', right)).status).toBe(200)
  await vi.waitFor(() => expect(subjects()).toEqual(['Your password was changed']), 20_000)
})
