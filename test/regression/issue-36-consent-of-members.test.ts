import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { deleteCustomer } from '../../src/money/accounts/customers.ts'
import { startSmtpSink } from '../alerts/smtp-sink.ts'
import { BrowserClient, PASSWORD, signedInMember, signedInOperator, tokenOf } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { signedInHoster } from '../harness/hosters.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// An owner made members owners without asking them: a last owner cannot leave, and owners count their hosters. Invitations outlived
// their inviter, links showed whether an address has an account, and an operator got the link of a mailed invitation.

const yaml = 'hosters:\n  allow_private_urls: true\n'
const app = useTestApp(() => ({ yaml }))
const smtp = useResource(
  async () => ({ sink: await startSmtpSink() }),
  ({ sink }) => sink.close(),
)
const mailing = useTestApp(() => ({
  yaml: `${yaml}smtp:\n  host: 127.0.0.1\n  port: ${smtp.sink.port}\n  security: none\n`,
}))
const closed = useTestApp(() => ({ yaml: `${yaml}accounts:\n  sign_up: closed\n` }))

const read = async <T>(answer: Promise<Response>): Promise<T> => {
  const response = await answer
  expect(response.status).toBe(200)
  return (await response.json()) as T
}
const secretOf = async (invitation: Promise<Response>) => tokenOf((await read<{ url: string }>(invitation)).url)
const join = (token: string, password = PASSWORD) => new BrowserClient(app.url).post('join', { token, password })
const newEmail = () => `person-${randomUUID().slice(0, 8)}@example.com`
const personIdOf = async (email: string) =>
  (await app.database.pool.query<{ id: string }>('SELECT person_id AS id FROM person WHERE email = $1', [email]))
    .rows[0]!.id

test('a member becomes an owner of a customer or a hoster by accepting an invitation only', async () => {
  const { customerId } = await app.customer()
  const owner = await signedInMember(app, customerId)
  const member = await signedInMember(app, customerId, 'billing')
  const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:1/v1' })
  const hosterOwner = await signedInHoster(app, hosterId)
  const developer = await signedInHoster(app, hosterId, 'developer')

  const customer = `customers/${customerId}`
  const raise = owner.browser.send('PATCH', `${customer}/people/${await personIdOf(member.email)}`, { role: 'owner' })
  expect(await readError(await raise)).toMatchObject({ status: 400, code: 'invalid_value', param: 'role' })
  const raiseHoster = hosterOwner.browser.post(`hosters/${hosterId}/people`, { email: developer.email, role: 'owner' })
  expect(await readError(await raiseHoster)).toMatchObject({ status: 400, code: 'invalid_value', param: 'role' })

  for (const [inviter, path, { browser, email }] of [
    [owner.browser, customer, member],
    [hosterOwner.browser, `hosters/${hosterId}`, developer],
  ] as const) {
    const other = await readError(await inviter.post(`${path}/invites`, { email, role: 'viewer' }))
    expect(other).toMatchObject({ status: 400, param: 'email' })
    expect((await browser.get(`${path}/people`)).status).toBe(403)
    const token = await secretOf(inviter.post(`${path}/invites`, { email, role: 'owner' }))
    expect((await browser.get(`${path}/people`)).status).toBe(403)
    await read(join(token))
    expect((await browser.get(`${path}/people`)).status).toBe(200)
  }
})

test('where only the operator makes accounts, owners still make members owners', async () => {
  const { customerId } = await closed.customer()
  const { browser } = await signedInMember(closed, customerId)
  const { email } = await signedInMember(closed, customerId, 'viewer')
  const invite = (address: string) => browser.post(`customers/${customerId}/invites`, { email: address, role: 'owner' })
  expect(await readError(await invite(newEmail()))).toMatchObject({ code: 'sign_up_closed' })
  expect((await invite(email)).status).toBe(200)
})

test.each(['customer', 'hoster'] as const)(
  'the invitations of a member of a %s end when the member leaves, and with the right to invite',
  async kind => {
    const { customerId } = await app.customer()
    const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:1/v1' })
    const sign = () => (kind === 'customer' ? signedInMember(app, customerId) : signedInHoster(app, hosterId))
    const path = kind === 'customer' ? `customers/${customerId}` : `hosters/${hosterId}`
    const { browser: owner } = await sign()
    const change = async (email: string, role: string | null) => {
      if (kind === 'hoster') return owner.post(`${path}/people`, { email, role })
      const person = `${path}/people/${await personIdOf(email)}`
      return role === null ? owner.send('DELETE', person) : owner.send('PATCH', person, { role })
    }
    const invite = (browser: BrowserClient, email = newEmail()) =>
      secretOf(browser.post(`${path}/invites`, { email, role: 'owner' }))
    const kept = await invite(owner)

    const [demoted, removed] = [await sign(), await sign()]
    const back = newEmail()
    const [first, second] = [await invite(demoted.browser), await invite(removed.browser, back)]
    await read(change(demoted.email, 'viewer'))
    await read(change(removed.email, null))
    for (const token of [first, second]) expect((await join(token)).status).toBe(404)

    // An offer to become an owner does not bring a removed person back.
    const offer = await invite(owner, demoted.email)
    await read(change(demoted.email, null))
    expect((await join(offer)).status).toBe(404)
    await read(join(kept))
  },
)

test('the link of an invitation that was not mailed says nothing about an account', async () => {
  const { customerId } = await app.customer()
  const { browser: owner } = await signedInMember(app, customerId)
  const { email: known } = await signedInMember(app, (await app.customer()).customerId)
  const answers: object[] = []
  for (const email of [known, newEmail()]) {
    const token = await secretOf(owner.post(`customers/${customerId}/invites`, { email, role: 'viewer' }))
    const shown = await read<{ email: string }>(new BrowserClient(app.url).post('invite', { token }))
    expect(shown).toMatchObject({ email, has_password: null })
    const refusals = []
    for (const password of ['too short', 'passwordpassword']) {
      const { status, code, message } = await readError(await join(token, password))
      refusals.push({ status, code, message })
    }
    answers.push({ ...shown, email: '', refusals })
  }
  expect(answers[0]).toEqual(answers[1])
})

test('an operator who invites a person does not get the link of a mailed invitation', async () => {
  const { customerId } = await mailing.customer()
  const { browser: operator } = await signedInOperator(mailing)
  const email = newEmail()
  const path = `operator/customers/${customerId}/invites`
  const made = await (await operator.post(path, { email, role: 'viewer' })).json()
  expect(made).toMatchObject({ email, role: 'viewer', is_mailed: true, url: null })
  const mail = await vi.waitFor(() => {
    const found = smtp.sink.mails.find(each => each.to === email)
    expect(found).toBeDefined()
    return found!
  }, 90_000)
  const [, token] = /invite#([\w-]{43})/.exec(mail.source.replace(/=\r?\n/g, ''))!
  const guest = new BrowserClient(mailing.url)
  expect(await (await guest.post('invite', { token })).json()).toMatchObject({ email, has_password: false })
  expect((await guest.post('join', { token, password: PASSWORD })).status).toBe(200)
})

test('the invitation of an operator ends with the role', async () => {
  const { customerId } = await app.customer()
  const { browser: operator, personId } = await signedInOperator(app)
  const invite = () => operator.post(`operator/customers/${customerId}/invites`, { email: newEmail(), role: 'owner' })
  const [first, second] = [await secretOf(invite()), await secretOf(invite())]
  await read(join(first))
  await app.database.pool.query('UPDATE person SET installation_role = NULL WHERE person_id = $1', [personId])
  expect((await join(second)).status).toBe(404)
})

test('the invitations of a person end when the person is deleted with the customer', async () => {
  const [{ customerId }, { customerId: other }] = [await app.customer(), await app.customer()]
  const { email } = await signedInMember(app, customerId)
  const { pool } = app.database
  await pool.query(
    `INSERT INTO person_token (token_hash, purpose, customer_id, email, role, made_by, is_mailed, expires_at)
     SELECT sha256('invitation'), 'invite', $1, 'new@example.com', 'owner', person_id, false, now() + interval '1 day' FROM person WHERE email = $2`,
    [other, email],
  )
  expect(await transaction(pool, sql => deleteCustomer(sql, customerId))).toBe(true)
  const { rows } = await pool.query(
    "SELECT (SELECT count(*)::int FROM person WHERE email = $1) AS people, (SELECT count(*)::int FROM person_token WHERE token_hash = sha256('invitation')) AS invitations",
    [email],
  )
  expect(rows).toEqual([{ people: 0, invitations: 0 }])
})

test('a person is deleted with the customer, though a key of another customer names the person as its maker', async () => {
  const [{ customerId }, { customerId: other }] = [await app.customer(), await app.customer()]
  const { email } = await signedInMember(app, customerId)
  const personId = await personIdOf(email)
  const { pool } = app.database
  await pool.query('UPDATE api_key SET person_id = $2 WHERE customer_id = $1', [other, personId])
  expect(await transaction(pool, sql => deleteCustomer(sql, customerId))).toBe(true)
  const { rows } = await pool.query(
    'SELECT person_id, revoked_at IS NOT NULL AS is_revoked FROM api_key WHERE customer_id = $1',
    [other],
  )
  expect(rows).toEqual([{ person_id: null, is_revoked: true }])
  expect((await pool.query('SELECT FROM person WHERE person_id = $1', [personId])).rowCount).toBe(0)
})

// Went wrong: the last owner of a hoster lost the account with the customer, and nobody could sign in for the hoster.
test('a member of a hoster outlives the customer', async () => {
  const { pool } = app.database
  const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:1/v1' })
  const { browser, email } = await signedInHoster(app, hosterId)
  const { customerId } = await app.customer()
  const personId = await personIdOf(email)
  await pool.query("INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'owner')", [
    customerId,
    personId,
  ])
  expect(await transaction(pool, sql => deleteCustomer(sql, customerId))).toBe(true)
  expect((await browser.get(`hosters/${hosterId}/people`)).status).toBe(200)
})
