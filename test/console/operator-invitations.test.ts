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
    await read<{
      data: {
        id: string
        email: string
        invited_role: string | null
        invited_by: string | null
        has_second_factor: boolean
      }[]
    }>(browser.get('operator/people?show=invited'))
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
  expect(waiting!.invited_by).not.toBe(null)
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

/** Joins without mail, with a second factor. Returns the id of the person. */
async function joinedWithFactor(by: BrowserClient, email: string, role = 'operator') {
  await read(join(await tokenFor(by, email, role)))
  const { rows } = await app.database.pool.query<{ id: string }>(
    "UPDATE person SET totp_secret = '\\x00' WHERE email = $1 RETURNING person_id AS id",
    [email],
  )
  return rows[0]!.id
}
const giveRole = (by: BrowserClient, id: string, role: string | null) => by.post(`operator/people/${id}/role`, { role })

test('an accepted invitation ends with the role of its maker, a block, a dismissal and 14 days', async () => {
  const [first, second, third] = await operators(3)
  const { browser } = first!
  const id = await joinedWithFactor(second!.browser, 'fay@example.com')
  // The maker loses the role by the two others, and gets it back.
  await read(giveRole(browser, second!.personId, null))
  expect(await read(giveRole(third!.browser, second!.personId, null))).toEqual({ state: 'done' })
  await app.database.pool.query("UPDATE person SET installation_role = 'operator' WHERE person_id = $1", [
    second!.personId,
  ])
  expect(await joined(browser)).toEqual([])
  expect(await readError(await giveRole(browser, id, 'operator'))).toMatchObject({ code: 'role_not_possible' })

  const ends = {
    block: async (person: string) => {
      await read(browser.post(`operator/people/${person}/block`, { reason: 'a test' }))
      await read(browser.post(`operator/people/${person}/unblock`))
    },
    dismissal: (person: string) => read(browser.send('DELETE', `operator/people/${person}/invite`)),
    time: (person: string) =>
      app.database.pool.query("UPDATE person SET invited_at = now() - interval '15 days' WHERE person_id = $1", [
        person,
      ]),
  }
  for (const [name, end] of Object.entries(ends)) {
    const person = await joinedWithFactor(browser, `${name}@example.com`)
    expect((await joined(browser)).map(each => each.id)).toEqual([person])
    await end(person)
    expect(await joined(browser), name).toEqual([])
    expect(await readError(await giveRole(browser, person, 'operator')), name).toMatchObject({
      code: 'role_not_possible',
    })
  }
})

test('an invitation vouches for its own role only, and an auditor is invited again to become an operator', async () => {
  const [operator] = await operators(1)
  const { browser } = operator!
  const id = await joinedWithFactor(browser, 'gil@example.com', 'auditor')
  expect(await readError(await giveRole(browser, id, 'operator'))).toMatchObject({ code: 'role_not_possible' })
  expect(await read(giveRole(browser, id, 'auditor'))).toEqual({ state: 'done' })
  expect(await readError(await giveRole(browser, id, 'operator'))).toMatchObject({ code: 'role_not_possible' })
  const code = tokenOf((await read<Invite>(invite(browser, 'gil@example.com'))).url!)
  await app.database.pool.query('UPDATE person SET totp_secret = NULL WHERE person_id = $1', [id])
  await read(join(code))
  await app.database.pool.query("UPDATE person SET totp_secret = '\\x00' WHERE person_id = $1", [id])
  expect(await joined(browser)).toMatchObject([{ id, invited_role: 'operator' }])
  expect(await read(giveRole(browser, id, 'operator'))).toEqual({ state: 'done' })
})

test('a second operator who asks for the same role approves it', async () => {
  const [first, second] = await operators(2)
  const id = await joinedWithFactor(first!.browser, 'hal@example.com')
  expect(await read(giveRole(first!.browser, id, 'operator'))).toEqual({ state: 'waiting' })
  expect(await read(giveRole(second!.browser, id, 'operator'))).toEqual({ state: 'done' })
  const { rows } = await app.database.pool.query<{ action: string }>(
    "SELECT action FROM audit_entry WHERE subject = 'hal@example.com' ORDER BY entry_id",
  )
  expect(rows.map(({ action }) => action)).not.toContain('role.rejected')
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
