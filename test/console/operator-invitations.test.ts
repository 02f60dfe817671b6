import { expect, test } from 'vitest'
import { findPerson } from '../../src/identity/people/persons.ts'
import { BrowserClient, PASSWORD, signedInMember, signedInOperator, tokenOf } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// Without a mail server, so an operator gets the link to hand over. invitations.test.ts and oidc-invitations.test.ts have mailed ones.
const app = useTestApp()

interface Invite {
  readonly id: string
  readonly email: string
  readonly role: string
  readonly is_mailed: boolean
  readonly url: string | null
}
const read = async <T>(response: Promise<Response>) => {
  const answer = await response
  expect(answer.status).toBe(200)
  return (await answer.json()) as T
}
/** Leaves exactly this many operators, who are signed in. */
async function operators(count: number) {
  await app.database.pool.query('UPDATE person SET installation_role = NULL')
  return Promise.all(Array.from({ length: count }, () => signedInOperator(app)))
}
const invite = (browser: BrowserClient, email: string, role = 'operator') =>
  browser.post('operator/invites', { email, role })
const join = (token: string) => new BrowserClient(app.url).post('join', { token, name: 'Bob', password: PASSWORD })
const tokenFor = async (browser: BrowserClient, email: string, role = 'operator') =>
  tokenOf((await read<Invite>(invite(browser, email, role))).url!)
const open = async (browser: BrowserClient) =>
  (await read<{ data: Invite[] }>(browser.get('operator/invites'))).data.map(({ email, role }) => [email, role])
const joined = async (browser: BrowserClient) =>
  (
    await read<{ data: { id: string; email: string; invited_role: string | null; has_second_factor: boolean }[] }>(
      browser.get('operator/people?show=invited'),
    )
  ).data

test('an invited person becomes an operator after a second factor and another confirmation', async () => {
  const [operator] = await operators(1)
  const { browser } = operator!
  await app.database.pool.query("UPDATE person_session SET confirmed_at = now() - interval '11 minutes'")
  expect(await readError(await invite(browser, 'bob@example.com'))).toMatchObject({ code: 'confirmation_required' })
  await read(browser.post('confirm', { password: PASSWORD }))
  const made = await read<Invite>(invite(browser, 'bob@example.com'))
  expect(made).toMatchObject({ email: 'bob@example.com', role: 'operator', is_mailed: false })
  expect(await open(browser)).toEqual([['bob@example.com', 'operator']])
  const shown = await read(new BrowserClient(app.url).post('invite', { token: tokenOf(made.url!) }))
  expect(shown).toMatchObject({ email: 'bob@example.com', role: 'operator', customer_email: null, hoster: null })

  const bob = new BrowserClient(app.url)
  await read(bob.post('join', { token: tokenOf(made.url!), name: 'Bob', password: PASSWORD }))
  expect(await open(browser)).toEqual([])
  expect(await readError(await join(tokenOf(made.url!)))).toMatchObject({ code: 'link_expired' })
  // The account has no right yet, and cannot give itself one.
  const [waiting] = await joined(browser)
  expect(waiting).toMatchObject({ email: 'bob@example.com', invited_role: 'operator', has_second_factor: false })
  const give = (by: BrowserClient) => by.post(`operator/people/${waiting!.id}/role`, { role: 'operator' })
  expect((await bob.get('operator/overview')).status).toBe(403)
  expect(await readError(await give(bob))).toMatchObject({ code: 'role_not_allowed' })
  expect(await readError(await give(browser))).toMatchObject({ code: 'role_not_possible' })
  await app.database.pool.query("UPDATE person SET totp_secret = '\\x00' WHERE person_id = $1", [waiting!.id])
  await app.database.pool.query("UPDATE person_session SET confirmed_at = now() - interval '11 minutes'")
  expect(await readError(await give(browser))).toMatchObject({ code: 'confirmation_required' })
  await read(browser.post('confirm', { password: PASSWORD }))
  expect(await read(give(browser))).toEqual({ state: 'done' })
  expect((await findPerson(app.database.pool, 'bob@example.com'))?.installationRole).toBe('operator')
  expect(await joined(browser)).toEqual([])
  const { rows } = await app.database.pool.query<{ action: string }>(
    "SELECT action FROM audit_entry WHERE subject = 'bob@example.com' ORDER BY entry_id",
  )
  expect(rows.map(({ action }) => action)).toEqual(['operator.invited', 'operator.joined', 'role.changed'])
})

test('with two operators, the second one approves the role of an invited person', async () => {
  const [first, second] = await operators(2)
  await read(join(await tokenFor(first!.browser, 'carol@example.com', 'auditor')))
  const carol = (await joined(first!.browser)).find(({ email }) => email === 'carol@example.com')!
  await app.database.pool.query("UPDATE person SET totp_secret = '\\x00' WHERE person_id = $1", [carol.id])
  expect(await read(first!.browser.post(`operator/people/${carol.id}/role`, { role: 'auditor' }))).toEqual({
    state: 'waiting',
  })
  const { data } = await read<{ data: { id: string }[] }>(second!.browser.get('operator/role-changes'))
  expect(await read(second!.browser.post(`operator/role-changes/${data[0]!.id}/approve`))).toEqual({ state: 'done' })
  expect((await findPerson(app.database.pool, 'carol@example.com'))?.installationRole).toBe('auditor')
})

test('an invitation ends with the role of its maker, and is not for others', async () => {
  const [first, second] = await operators(2)
  const token = await tokenFor(first!.browser, 'dora@example.com')
  await app.database.pool.query('UPDATE person SET installation_role = NULL WHERE person_id = $1', [first!.personId])
  expect(await readError(await join(token))).toMatchObject({ code: 'link_expired' })
  const [again] = (await read<{ data: Invite[] }>(second!.browser.get('operator/invites'))).data
  expect(await read(second!.browser.send('DELETE', `operator/invites/${again!.id}`))).toEqual({ revoked: true })
  expect(await open(second!.browser)).toEqual([])

  const { customerId } = await app.customer()
  const member = await signedInMember(app, customerId)
  expect(await readError(await invite(member.browser, 'eve@example.com'))).toMatchObject({ code: 'role_not_allowed' })
  for (const role of ['owner', 'admin'])
    expect(await readError(await invite(second!.browser, 'eve@example.com', role))).toMatchObject({ param: 'role' })
  // No owner of a customer invites to the installation.
  const invited = member.browser.post(`customers/${customerId}/invites`, { email: 'eve@example.com', role: 'operator' })
  expect(await readError(await invited)).toMatchObject({ status: 400, param: 'role' })
})

test('a person with a role and a blocked one are not invited', async () => {
  const [operator] = await operators(1)
  const { rows } = await app.database.pool.query<{ email: string }>('SELECT email FROM person WHERE person_id = $1', [
    operator!.personId,
  ])
  expect(await readError(await invite(operator!.browser, rows[0]!.email))).toMatchObject({ code: 'invalid_value' })
  const { customerId } = await app.customer()
  const { email } = await signedInMember(app, customerId)
  await app.database.pool.query('UPDATE person SET disabled_at = now() WHERE email = $1', [email])
  expect(await readError(await invite(operator!.browser, email))).toMatchObject({ code: 'role_not_possible' })
})
