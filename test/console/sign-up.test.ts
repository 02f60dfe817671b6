import { expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { mailboxOf } from '../../src/identity/people/signup-credit.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { startSmtpSink } from '../alerts/smtp-sink.ts'
import { BrowserClient, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

let nowMs = Date.now()
const clock = { epochMs: () => nowMs, monotonicMs: () => performance.now() }
const smtp = useResource(startSmtpSink, sink => sink.close())
const mailYaml = (signUp: string, more = '') => `accounts:
  sign_up: ${signUp}
${more}smtp:
  host: 127.0.0.1
  port: ${smtp.port}
  security: none
server:
  trusted_proxies: [127.0.0.1]
`
const app = useTestApp(() => ({ clock, yaml: mailYaml('open', '  credits_per_network_per_day: 2\n') }))
const closed = useTestApp(() => ({ clock, yaml: mailYaml('closed') }))
const withoutMail = useTestApp({ clock })

const browser = (address = '203.0.113.1') => new BrowserClient(app.url, { 'x-forwarded-for': address })

/** Waits for a mail to this address, and returns its text. */
const mailTo = (email: string, subject: string) =>
  vi.waitFor(() => {
    const found = smtp.mails.findLast(({ to, source }) => to === email && source.includes(`Subject: ${subject}`))
    if (found === undefined) throw new Error(`no mail to ${email}`)
    return found.source.replace(/=\r?\n/g, '').replace(/=3D/g, '=')
  }, 5_000)
const tokenIn = (mail: string, path: string) => new RegExp(`${path}#([\\w-]{43})`).exec(mail)![1]!

async function signUp(email: string, address?: string, client = browser(address)) {
  expect(await (await client.post('sign-up', { email })).json()).toEqual({ mailed: true })
  const token = tokenIn(await mailTo(email, 'Finish your sign-up'), '/verify')
  const entered = await client.post('verify', { token, password: PASSWORD, name: 'Ada' })
  const session = (await entered.json()) as { memberships: { customer_id: string; role: string }[] }
  const customerId = session.memberships[0]?.customer_id
  const balance = async () => {
    const credits = await client.get(`customers/${customerId}/credits`)
    return ((await credits.json()) as { balance_usd: number }).balance_usd
  }
  return { client, token, entered, session, customerId, balance }
}

test('the pages outside know how people get in', async () => {
  const config = async (url: string) => (await new BrowserClient(url).get('config')).json()
  expect(await config(app.url)).toMatchObject({ sign_up: 'open', has_mail: true, oidc_providers: [] })
  expect(await config(closed.url)).toMatchObject({ sign_up: 'closed' })
  expect(await config(withoutMail.url)).toMatchObject({ sign_up: 'invite', has_mail: false })
})

test('a person signs up, proves the address, and owns a customer with the signup credit', async () => {
  const { entered, session, client, balance, token } = await signUp('new-ada@example.com')
  expect(entered.status).toBe(200)
  expect(session).toMatchObject({ memberships: [{ role: 'owner', email: 'new-ada@example.com' }] })
  expect(await balance()).toBe(5)
  expect((await client.get('session')).status).toBe(200)
  expect((await browser().post('verify', { token, password: PASSWORD })).status).toBe(404)
  const { rows } = await app.database.pool.query(
    "SELECT email_verified_at IS NOT NULL AS verified FROM person WHERE email = 'new-ada@example.com'",
  )
  expect(rows).toEqual([{ verified: true }])
})

test('one mailbox gets the signup credit once, and one network a few times a day', async () => {
  expect(await (await signUp('bo+one@example.com', '198.51.100.1')).balance()).toBe(5)
  expect(await (await signUp('bo+two@example.com', '198.51.100.1')).balance()).toBe(0)
  expect(await (await signUp('second@example.com', '198.51.100.1')).balance()).toBe(5)
  expect(await (await signUp('third@example.com', '198.51.100.1')).balance()).toBe(0)
  nowMs += 86_400_001
  expect(await (await signUp('fourth@example.com', '198.51.100.1')).balance()).toBe(5)
})

test('a second sign-up in one browser gets no credit', async () => {
  const first = await signUp('browser-one@example.com', '192.0.2.50')
  expect(await first.balance()).toBe(5)
  expect(await (await signUp('browser-two@example.com', undefined, first.client)).balance()).toBe(0)
})

test('an address names its mailbox', () => {
  expect(mailboxOf('A.d.a+x@GMail.com')).toBe('ada@gmail.com')
  expect(mailboxOf('a.d.a+x@example.com')).toBe('a.d.a@example.com')
})

test('a sign-up gets the customer that the operator made for the address, unless it has members', async () => {
  const make = (email: string) =>
    transaction(app.database.pool, async sql => {
      const { customerId } = (await addCustomer(sql, { email, accountTier: 'standard' }))!
      await openAccount(sql, customerId, 7_000_000_000n)
      return customerId
    })
  const mine = await make('made-by-operator@example.com')
  const claimed = await signUp('made-by-operator@example.com', '198.51.100.9')
  expect(claimed.customerId).toBe(mine)
  expect(await claimed.balance()).toBe(7)
  const taken = await make('team@example.com')
  await signedInMember(app, taken, 'owner', nowMs)
  expect((await signUp('team@example.com', '198.51.100.9')).session.memberships).toEqual([])
})

test('an address with an account gets the same answer, and a mail that says so', async () => {
  await signUp('known@example.com', '198.51.100.20')
  const answers = await Promise.all(
    ['known@example.com', 'unknown@example.com'].flatMap(email =>
      ['sign-up', 'forgot'].map(async path => {
        const response = await browser('198.51.100.21').post(path, { email })
        return { status: response.status, body: await response.json() }
      }),
    ),
  )
  for (const answer of answers) expect(answer).toEqual({ status: 200, body: { mailed: true } })
  expect(await mailTo('known@example.com', 'You already have an account')).not.toContain('#')
  await mailTo('known@example.com', 'Set a new password')
  await mailTo('unknown@example.com', 'Finish your sign-up')
  expect(smtp.mails.filter(({ to }) => to === 'unknown@example.com')).toHaveLength(1)
})

test('a forgotten password is set once with a mailed link, which ends all sessions', async () => {
  const { client } = await signUp('forgot@example.com', '198.51.100.30')
  await browser('198.51.100.30').post('forgot', { email: 'FORGOT@example.com' })
  const token = tokenIn(await mailTo('forgot@example.com', 'Set a new password'), '/reset')
  const guest = browser('198.51.100.30')
  expect(await readError(await guest.post('reset', { token, password: 'short' }))).toMatchObject({ param: 'password' })
  expect(await (await guest.post('reset', { token, password: 'a new long password' })).json()).toEqual({ reset: true })
  expect((await client.get('session')).status).toBe(401)
  expect((await guest.get('session')).status).toBe(401)
  expect((await guest.post('reset', { token, password: 'an attacker comes later' })).status).toBe(404)
  const signIn = (password: string) =>
    browser('198.51.100.30').post('sign-in', { email: 'forgot@example.com', password })
  expect((await signIn(PASSWORD)).status).toBe(401)
  expect((await signIn('a new long password')).status).toBe(200)
  await mailTo('forgot@example.com', 'Your password was changed')
})

test('links are too old after their time, and open nothing else', async () => {
  const client = browser('198.51.100.40')
  await client.post('sign-up', { email: 'late@example.com' })
  const token = tokenIn(await mailTo('late@example.com', 'Finish your sign-up'), '/verify')
  for (const path of ['reset', 'welcome', 'join'])
    expect((await client.post(path, { token, password: PASSWORD })).status).toBe(404)
  expect(await (await client.post('sign-up/link', { token })).json()).toEqual({ email: 'late@example.com' })
  nowMs += 86_400_001
  expect((await client.post('sign-up/link', { token })).status).toBe(404)
  expect((await client.post('verify', { token, password: PASSWORD })).status).toBe(404)
})

test('a mailbox gets a few mails and then waits, whether or not it has an account', async () => {
  const { client } = await signUp('flooded@example.com', '198.51.100.50')
  void client
  for (const email of ['flooded@example.com', 'flooded-unknown@example.com']) {
    const statuses: number[] = []
    for (let n = 0; n < 6; n++) statuses.push((await browser('198.51.100.51').post('forgot', { email })).status)
    expect(statuses.at(-1)).toBe(429)
    nowMs += 3_600_000
  }
})

test('two people at once finish a sign-up once', async () => {
  const client = browser('198.51.100.60')
  await client.post('sign-up', { email: 'race@example.com' })
  const token = tokenIn(await mailTo('race@example.com', 'Finish your sign-up'), '/verify')
  const answers = await Promise.all(
    Array.from({ length: 4 }, (_, n) =>
      browser('198.51.100.60').post('verify', { token, password: `password number ${n}` }),
    ),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404])
})

test('nobody signs up where the server does not let them', async () => {
  for (const { url } of [closed, withoutMail]) {
    const client = new BrowserClient(url)
    const refused = await client.post('sign-up', { email: 'a@example.com' })
    expect(await readError(refused)).toMatchObject({ status: 403, code: 'sign_up_closed' })
  }
  const noMail = await new BrowserClient(withoutMail.url).post('forgot', { email: 'a@example.com' })
  expect(await readError(noMail)).toMatchObject({ status: 409, code: 'mail_not_configured' })
  const { customerId } = await closed.customer()
  const { browser: owner } = await signedInMember(closed, customerId, 'owner', nowMs)
  const invited = await owner.post(`customers/${customerId}/invites`, { email: 'b@example.com', role: 'viewer' })
  expect(await readError(invited)).toMatchObject({ status: 403, code: 'sign_up_closed' })
})

test('an invitation is mailed where the server sends mail, and then shows no link', async () => {
  const { client, customerId } = await signUp('inviter@example.com', '198.51.100.70')
  const made = await client.post(`customers/${customerId}/invites`, { email: 'guest@example.com', role: 'viewer' })
  expect(await made.json()).toMatchObject({ is_mailed: true, url: null })
  const token = tokenIn(await mailTo('guest@example.com', 'Invitation to inviter@example.com'), '/invite')
  expect((await browser().post('join', { token, password: PASSWORD })).status).toBe(200)
})

test('the link in a mail never has the Host of a request', async () => {
  const client = browser('198.51.100.80')
  await client.send('POST', 'sign-up', { email: 'poisoned@example.com' }, { 'x-forwarded-host': 'evil.example' })
  expect(await mailTo('poisoned@example.com', 'Finish your sign-up')).not.toContain('evil.example')
})

test('the audit log has what was done here', async () => {
  const { rows } = await app.database.pool.query<{ action: string }>('SELECT DISTINCT action FROM audit_entry')
  expect(rows.map(({ action }) => action)).toEqual(
    expect.arrayContaining(['person.signed_up', 'person.password_reset']),
  )
})
