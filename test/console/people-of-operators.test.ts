import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createPool, transaction } from '../../src/base/db/pool.ts'
import { findPerson } from '../../src/identity/people/persons.ts'
import { setRole } from '../../src/identity/people/roles.ts'
import { BrowserClient, PASSWORD, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterRequest, signedInHoster } from '../harness/hosters.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }' })

const read = async <T>(response: Promise<Response>) => {
  const answer = await response
  expect(answer.status).toBe(200)
  return (await answer.json()) as T
}
const personOf = async (email: string) => (await findPerson(app.database.pool, email))!
const roleOf = async (email: string) => (await personOf(email)).installationRole
/** A person with a proved address and a second factor, as the console needs for a role. */
async function trustedPerson() {
  const { customerId } = await app.customer()
  const { browser, email } = await signedInMember(app, customerId)
  const { personId } = await personOf(email)
  await app.database.pool.query(
    "UPDATE person SET email_verified_at = now(), totp_secret = '\\x00' WHERE person_id = $1",
    [personId],
  )
  return { browser, email, personId }
}
/** Leaves exactly this many operators, who are signed in. */
async function operators(count: number) {
  await app.database.pool.query('UPDATE person SET installation_role = NULL')
  return Promise.all(Array.from({ length: count }, () => signedInOperator(app)))
}
const ask = (browser: BrowserClient, personId: string, role: string | null) =>
  browser.post(`operator/people/${personId}/role`, { role })
const waiting = async (browser: BrowserClient) =>
  (await read<{ data: { id: string; email: string; is_own: boolean }[] }>(browser.get('operator/role-changes'))).data

test('a blocked person is out everywhere, and comes back', async () => {
  const [operator] = await operators(1)
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl })
  const { browser, email, personId } = await signedInHoster(app, hosterId)
  const { memberships } = await read<{ memberships: { customer_id: string }[] }>(browser.get('session'))
  const keys = `customers/${memberships[0]!.customer_id}/keys`
  const { key } = await read<{ key: string }>(browser.post(keys, { name: 'mine' }))
  const { key: hosterKey } = await read<{ key: string }>(
    browser.post(`hosters/${hosterId}/keys`, { name: 'agent', scopes: ['serve', 'read'] }),
  )
  const states = async () => {
    await app.app.noticeChanges()
    const signIn = await new BrowserClient(app.url).post('sign-in', { email, password: PASSWORD })
    const used = await fetch(`${app.url}/v1/credits`, { headers: { authorization: `Bearer ${key}` } })
    return [signIn.status, used.status, (await hosterRequest(app, hosterKey, 'hoster')).status]
  }
  expect(await states()).toEqual([200, 200, 200])
  const path = `operator/people/${personId}`
  expect(await readError(await operator!.browser.post(`${path}/block`))).toMatchObject({ status: 400, param: 'reason' })
  await read(operator!.browser.post(`${path}/block`, { reason: 'stolen laptop' }))
  expect((await browser.get('session')).status).toBe(401)
  expect(await states()).toEqual([401, 401, 401])
  const listed = await read<{ data: object[] }>(operator!.browser.get(`operator/people?show=blocked&search=${email}`))
  expect(listed.data).toMatchObject([{ email, is_blocked: true, role: null, keys: 2 }])
  await read(operator!.browser.post(`${path}/unblock`))
  expect(await states()).toEqual([200, 200, 200])
  const { rows } = await app.database.pool.query(
    'SELECT action FROM audit_entry WHERE subject = $1 AND person_id = $2 ORDER BY entry_id',
    [email, operator!.personId],
  )
  expect(rows).toEqual([{ action: 'person.blocked' }, { action: 'person.unblocked' }])
})

test('a single operator adds a second one, whose sessions end', async () => {
  const [operator] = await operators(1)
  const { browser, email, personId } = await trustedPerson()
  expect(await read(ask(operator!.browser, personId, 'operator'))).toEqual({ state: 'done' })
  expect(await roleOf(email)).toBe('operator')
  expect((await browser.get('session')).status).toBe(401)
})

test('with two operators, a role changes with both', async () => {
  const [first, second] = await operators(2)
  const { email, personId } = await trustedPerson()
  expect(await read(ask(first!.browser, personId, 'auditor'))).toEqual({ state: 'waiting' })
  expect(await roleOf(email)).toBe(null)
  const [own] = await waiting(first!.browser)
  expect(own).toMatchObject({ email, is_own: true })
  const path = `operator/role-changes/${own!.id}`
  expect(await readError(await first!.browser.post(`${path}/approve`))).toMatchObject({ code: 'role_not_allowed' })
  expect(await read(second!.browser.post(`${path}/approve`))).toEqual({ state: 'done' })
  expect(await roleOf(email)).toBe('auditor')
  expect(await readError(await second!.browser.post(`${path}/approve`))).toMatchObject({ status: 404 })

  // One operator does not remove the other one.
  await read(ask(first!.browser, second!.personId, null))
  expect(await waiting(second!.browser)).toMatchObject([{ is_own: false }])
  expect((await second!.browser.get('operator/overview')).status).toBe(200)
  const [removal] = await waiting(second!.browser)
  expect(await read(second!.browser.post(`operator/role-changes/${removal!.id}/reject`))).toEqual({ state: 'rejected' })
  expect(await waiting(first!.browser)).toEqual([])
  const block = first!.browser.post(`operator/people/${second!.personId}/block`, { reason: 'x' })
  expect(await readError(await block)).toMatchObject({ status: 409, code: 'has_role' })
})

test('a change of a role that another one replaces is in the audit log as rejected, from the console and the host', async () => {
  const [first, second] = await operators(2)
  const { email, personId } = await trustedPerson()
  await read(ask(first!.browser, personId, 'auditor'))
  await read(ask(second!.browser, personId, 'operator'))
  await transaction(app.database.pool, async sql => setRole(sql, await personOf(email), 'auditor'))
  const { rows } = await app.database.pool.query<{ action: string; detail: object; by: string | null }>(
    "SELECT action, detail, person_id AS by FROM audit_entry WHERE subject = $1 AND action LIKE 'role.%' ORDER BY entry_id",
    [email],
  )
  expect(rows).toMatchObject([
    { action: 'role.requested', by: first!.personId },
    { action: 'role.requested', by: second!.personId },
    { action: 'role.rejected', by: second!.personId, detail: { to: 'auditor', requested_by: first!.personId } },
    { action: 'role.rejected', by: null, detail: { to: 'operator', requested_by: second!.personId } },
    { action: 'role.changed', by: null, detail: { from: null, to: 'auditor' } },
  ])
})

test('a role needs a proved address, a second factor, and an operator', async () => {
  const [operator] = await operators(1)
  const { customerId } = await app.customer()
  const member = await signedInMember(app, customerId)
  const { personId } = await personOf(member.email)
  expect(await readError(await ask(operator!.browser, personId, 'operator'))).toMatchObject({
    code: 'role_not_possible',
  })
  await app.database.pool.query('UPDATE person SET email_verified_at = now() WHERE person_id = $1', [personId])
  expect(await readError(await ask(operator!.browser, personId, 'operator'))).toMatchObject({
    code: 'role_not_possible',
  })
  expect(await readError(await ask(member.browser, personId, 'operator'))).toMatchObject({ code: 'role_not_allowed' })
  expect(await readError(await ask(operator!.browser, randomUUID(), 'operator'))).toMatchObject({ status: 404 })
  expect((await member.browser.get('operator/people')).status).toBe(403)
})

test('the change that a former operator asked for can only be rejected', async () => {
  const [first, second, third] = await operators(3)
  const { email, personId } = await trustedPerson()
  expect(await read(ask(first!.browser, personId, 'auditor'))).toEqual({ state: 'waiting' })
  await read(ask(second!.browser, first!.personId, null))
  const leaves = (await waiting(third!.browser)).find(each => each.email !== email)!
  expect(await read(third!.browser.post(`operator/role-changes/${leaves.id}/approve`))).toEqual({ state: 'done' })
  const [change] = await waiting(third!.browser)
  const path = `operator/role-changes/${change!.id}`
  expect(await readError(await third!.browser.post(`${path}/approve`))).toMatchObject({
    code: 'role_not_allowed',
    message: 'Whoever asked for this change is no operator any more. Reject it, and ask for it yourself.',
  })
  expect(await read(third!.browser.post(`${path}/reject`))).toEqual({ state: 'rejected' })
  expect(await waiting(third!.browser)).toEqual([])
  expect(await roleOf(email)).toBeNull()
})

test('the last operator stays', async () => {
  const [operator] = await operators(1)
  expect(await readError(await ask(operator!.browser, operator!.personId, null))).toMatchObject({
    status: 409,
    code: 'last_operator',
  })
  const { rows } = await app.database.pool.query<{ email: string }>('SELECT email FROM person WHERE person_id = $1', [
    operator!.personId,
  ])
  const person = await personOf(rows[0]!.email)
  expect(await transaction(app.database.pool, sql => setRole(sql, person, 'auditor'))).toBe(false)

  // Two commands on the host that take the roles of both operators.
  const [a, b] = await operators(2)
  const removals = await Promise.all(
    [a!, b!].map(async ({ personId }) => {
      const { rows: found } = await app.database.pool.query<{ email: string }>(
        'SELECT email FROM person WHERE person_id = $1',
        [personId],
      )
      const each = await personOf(found[0]!.email)
      return transaction(app.database.pool, sql => setRole(sql, each, null))
    }),
  )
  expect(removals.sort()).toEqual([false, true])
})

test('the desk role changes no role without the session of an operator', async () => {
  await operators(1)
  const { personId } = await trustedPerson()
  const desk = createPool(app.database.deskConnection, { max: 1, applicationName: 'desk' })
  try {
    for (const statement of [
      `UPDATE person SET installation_role = 'operator' WHERE person_id = '${personId}'`,
      `UPDATE person SET disabled_at = now() WHERE installation_role = 'operator'`,
      `INSERT INTO role_change (change_id, person_id, role, requested_by, state) VALUES ('${personId}', '${personId}', 'operator', '${personId}', 'applying')`,
      `SELECT request_role_as('${personId}', '${personId}', '${personId}', 'operator', NULL)`,
      `SELECT apply_role_change('${personId}', '${personId}', NULL)`,
    ])
      await expect(desk.query(statement), statement).rejects.toMatchObject({ code: '42501' })
  } finally {
    await desk.end()
  }
})
