import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { makeInviteLink } from '../../src/identity/people/links.ts'
import { BrowserClient, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { CLIENT_ID, type ProviderScript, startScriptedProvider } from '../harness/scripted-provider.ts'
import { SoftwareAuthenticator } from '../harness/software-authenticator.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const provider = useResource(startScriptedProvider, each => each.close())
const app = useTestApp(() => ({
  yaml: `accounts:
  oidc:
    - id: work
      name: Work
      issuer: ${provider.issuer}
      client_id: ${CLIENT_ID}
      client_secret: ${provider.clientSecret}
`,
}))
const url = () => app.url.replace('127.0.0.1', 'localhost')
const newMail = () => `invited-${randomBytes(4).toString('hex')}@example.com`
const newSubject = () => randomBytes(8).toString('hex')

/** Invites an address to a new customer. Returns the secret of the link. */
async function invite(email: string): Promise<{ customerId: string; token: string }> {
  const { customerId } = await app.customer()
  const path = await transaction(app.database.pool, sql =>
    makeInviteLink(sql, { customerId, email, role: 'developer' }, Date.now()),
  )
  return { customerId, token: path.split('#')[1]! }
}

/** Opens the link, goes to the service and comes back. */
async function join(token: string, script: ProviderScript, client = new BrowserClient(url())) {
  const started = await client.post('oidc/start', { provider: 'work', invite: token })
  if (started.status !== 200) throw new Error(await started.text())
  const back = provider.visit(((await started.json()) as { url: string }).url, script)
  return { client, answer: await client.post('oidc/finish', { query: back.search }) }
}

const memberships = async (client: BrowserClient) =>
  ((await (await client.get('session')).json()) as { memberships: { customer_id: string; role: string }[] }).memberships

test('a new person joins with an address that the service has verified, and the link works once', async () => {
  const email = newMail()
  const { customerId, token } = await invite(email)
  const { client, answer } = await join(token, { subject: newSubject(), email: email.toUpperCase(), name: 'Grace' })
  expect(await answer.json()).toMatchObject({ outcome: 'entered' })
  expect(await memberships(client)).toMatchObject([{ customer_id: customerId, role: 'developer' }])
  const again = await new BrowserClient(url()).post('oidc/start', { provider: 'work', invite: token })
  expect(await readError(again)).toMatchObject({ status: 404, code: 'link_expired' })
  const { rows } = await app.database.pool.query(
    "SELECT action FROM audit_entry WHERE customer_id = $1 AND action = 'member.joined'",
    [customerId],
  )
  expect(rows).toHaveLength(1)
})

test('a person who has linked the service joins another customer', async () => {
  const [email, subject] = [newMail(), newSubject()]
  await join((await invite(email)).token, { subject, email })
  const { customerId, token } = await invite(email)
  const { client, answer } = await join(token, { subject })
  expect(answer.status).toBe(200)
  expect((await memberships(client)).map(each => each.customer_id)).toContain(customerId)
})

test.each([
  ['of another address', (_email: string) => ({ email: newMail() }), 'sign_in_refused'],
  ['without an address', () => ({}), 'no_account_here'],
  ['with an address that it did not verify', (email: string) => ({ email, isEmailVerified: false }), 'no_account_here'],
] as const)('an account %s joins nothing, and the link stays', async (_, scriptFor, code) => {
  const email = newMail()
  const { token } = await invite(email)
  const { client, answer } = await join(token, { subject: newSubject(), ...scriptFor(email) })
  expect(await readError(answer)).toMatchObject({ code })
  expect(client.cookie).toBeUndefined()
  expect((await join(token, { subject: newSubject(), email })).answer.status).toBe(200)
})

test('a person of another account cannot use a link that was passed on', async () => {
  const [email, subject] = [newMail(), newSubject()]
  await join((await invite(email)).token, { subject, email })
  const { token } = await invite(newMail())
  expect(await readError((await join(token, { subject })).answer)).toMatchObject({ code: 'sign_in_refused' })
})

test('an account that has not proved its address is not taken over', async () => {
  const { customerId } = await app.customer()
  const { email } = await signedInMember(app, customerId, 'viewer', Date.now(), url())
  const { token } = await invite(email)
  expect(await readError((await join(token, { subject: newSubject(), email })).answer)).toMatchObject({
    code: 'no_account_here',
  })
})

test('a person with a second factor joins after it, and not before', async () => {
  const email = newMail()
  const subject = newSubject()
  const { client: owner } = await join((await invite(email)).token, { subject, email })
  // biome-ignore lint/suspicious/noExplicitAny: the options are those of the browser's interface
  const options = (await (await owner.post('factors/passkeys/start')).json()) as any
  const passkey = new SoftwareAuthenticator(url()).create(options)
  const added = await owner.post('factors/passkeys', { name: 'Key', passkey })
  const { recovery_codes: codes } = (await added.json()) as { recovery_codes: string[] }
  const { customerId, token } = await invite(email)
  const { client, answer } = await join(token, { subject })
  expect(await answer.json()).toMatchObject({ outcome: 'factor' })
  expect(await memberships(owner)).toHaveLength(1)
  expect((await client.post('oidc/factor', { code: codes[0] })).status).toBe(200)
  expect((await memberships(client)).map(each => each.customer_id)).toContain(customerId)
})
