import { expect, test } from 'vitest'
import type { InvitedHoster } from '../../src/wire/api/operator/supply.ts'
import type { InviteList, MadeInvite } from '../../src/wire/api/people.ts'
import { BrowserClient, PASSWORD, signedInMember, signedInOperator, tokenOf } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { signedInHoster } from '../harness/hosters.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true, applications: closed }' })
const closed = useTestApp({ yaml: 'accounts: { sign_up: closed }' })

async function read<T>(answer: Response | Promise<Response>): Promise<T> {
  const response = await answer
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text) as T
}
const join = (token: string) => new BrowserClient(app.url).post('join', { token, password: PASSWORD })
let people = 0
const newEmail = () => `person-${++people}@example.com`
const audited = async (subject: string) =>
  (
    await app.database.pool.query<{ action: string }>(
      'SELECT action FROM audit_entry WHERE subject = $1 ORDER BY entry_id',
      [subject],
    )
  ).rows.map(({ action }) => action)

test('an operator invites a hoster: the link makes its owner, who finishes the application', async () => {
  const { browser: operator } = await signedInOperator(app)
  const email = newEmail()
  const invited = await read<InvitedHoster>(operator.post('operator/hosters', { name: 'invited', email }))
  expect(invited).toMatchObject({ email, role: 'owner', is_mailed: false })
  expect(invited.url).toMatch(new RegExp(`^${app.url}/invite#[\\w-]{43}$`))
  const token = tokenOf(invited.url!)
  expect(await read(new BrowserClient(app.url).post('invite', { token }))).toEqual({
    email,
    customer_email: null,
    hoster: { id: invited.hoster_id, name: 'invited' },
    role: 'owner',
    has_password: null,
  })
  const owner = new BrowserClient(app.url)
  await read(owner.post('join', { token, password: PASSWORD }))
  expect(await read(owner.get('hosters'))).toMatchObject({
    data: [{ id: invited.hoster_id, name: 'invited', state: 'applied', role: 'owner' }],
  })
  expect((await join(token)).status).toBe(404)
  expect(await audited('invited')).toEqual(['hoster.applied', 'hoster.member_invited'])
  const again = await operator.post('operator/hosters', { name: 'invited', email: newEmail() })
  expect(await readError(again)).toMatchObject({ status: 400, param: 'name' })
})

test('owners of a hoster invite members, and others do not', async () => {
  const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:1/v1' })
  const { browser: owner, email: own } = await signedInHoster(app, hosterId)
  const path = `hosters/${hosterId}/invites`
  const email = newEmail()
  const made = await read<MadeInvite>(owner.post(path, { email, role: 'developer' }))
  expect((await read<InviteList>(owner.get(path))).data).toMatchObject([{ id: made.id, email, made_by: own }])
  const { browser: viewer } = await signedInHoster(app, hosterId, 'viewer')
  for (const refused of [viewer.get(path), viewer.post(path, { email: newEmail(), role: 'owner' })])
    expect(await readError(await refused)).toMatchObject({ code: 'role_not_allowed' })
  await read(join(tokenOf(made.url!)))
  const members = await read<{ data: object[] }>(owner.get(`hosters/${hosterId}/people`))
  expect(members.data).toContainEqual(expect.objectContaining({ email, role: 'developer' }))
  const member = await owner.post(path, { email: email.toUpperCase(), role: 'viewer' })
  expect(await readError(member)).toMatchObject({ status: 400, param: 'email' })
})

test('an invitation that was taken back, or leads to a retired hoster, opens nothing', async () => {
  const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:1/v1' })
  const { browser: owner } = await signedInHoster(app, hosterId)
  const path = `hosters/${hosterId}/invites`
  const [first, second] = [
    await read<MadeInvite>(owner.post(path, { email: newEmail(), role: 'viewer' })),
    await read<MadeInvite>(owner.post(path, { email: newEmail(), role: 'viewer' })),
  ]
  // Neither the owner of a customer nor that of another hoster takes it back.
  const { customerId } = await app.customer()
  const { browser: stranger } = await signedInMember(app, customerId)
  expect((await stranger.send('DELETE', `customers/${customerId}/invites/${first.id}`)).status).toBe(404)
  expect((await stranger.send('DELETE', `${path}/${first.id}`)).status).toBe(404)
  await read(owner.send('DELETE', `${path}/${first.id}`))
  expect((await join(tokenOf(first.url!))).status).toBe(404)
  await read(owner.post(`hosters/${hosterId}/state`, { state: 'retired' }))
  expect((await join(tokenOf(second.url!))).status).toBe(404)
})

test('an invitation makes no owner less than an owner', async () => {
  const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:1/v1' })
  const { browser: owner } = await signedInHoster(app, hosterId)
  const { browser, email, personId } = await signedInHoster(app, await app.hoster({ baseUrl: 'http://127.0.0.1:2/v1' }))
  const made = await read<MadeInvite>(owner.post(`hosters/${hosterId}/invites`, { email, role: 'viewer' }))
  await app.database.pool.query("INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ($1, $2, 'owner')", [
    hosterId,
    personId,
  ])
  await read(join(tokenOf(made.url!)))
  expect(await read(browser.get('hosters'))).toMatchObject({
    data: expect.arrayContaining([expect.objectContaining({ id: hosterId, role: 'owner' })]),
  })
})

test('where only the operator makes accounts, owners invite nobody', async () => {
  const hosterId = await closed.hoster({ baseUrl: 'http://127.0.0.1:1/v1' })
  const { browser: owner } = await signedInHoster(closed, hosterId)
  const refused = await owner.post(`hosters/${hosterId}/invites`, { email: newEmail(), role: 'viewer' })
  expect(await readError(refused)).toMatchObject({ code: 'sign_up_closed' })
  const { browser: operator } = await signedInOperator(closed)
  await read(operator.post(`operator/hosters/${hosterId}/invites`, { email: newEmail(), role: 'viewer' }))
})
