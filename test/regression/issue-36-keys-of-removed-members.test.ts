import { expect, test } from 'vitest'
import { type BrowserClient, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// Keys of a member who was removed went on working, and one with the scope `manage` made further ones.

let nowMs = Date.now()
const app = useTestApp({ clock: { epochMs: () => nowMs, monotonicMs: () => performance.now() } })

const json = async <T>(response: Promise<Response>) => {
  const answer = await response
  expect(answer.status).toBe(200)
  return (await answer.json()) as T
}
const useKey = (key: string, body?: object) =>
  fetch(`${app.url}/v1/${body === undefined ? 'credits' : 'keys'}`, {
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
  })

/** A customer with an owner and a developer with a key, a key that makes keys, a key that it made, and one of the playground. */
async function team() {
  const { customerId, key: ofTheCommandLine } = await app.customer()
  const path = `customers/${customerId}`
  const owner = await signedInMember(app, customerId, 'owner', nowMs)
  const developer = await signedInMember(app, customerId, 'developer', nowMs)
  const make = async (browser: BrowserClient, scopes: string[]) =>
    (await json<{ key: string }>(browser.post(`${path}/keys`, { name: scopes[0] ?? 'plain', scopes }))).key
  const [plain, manage] = [await make(developer.browser, []), await make(developer.browser, ['manage'])]
  const { key: second } = await json<{ key: string }>(useKey(manage, { name: 'second' }))
  const { key: playground } = await json<{ key: string }>(developer.browser.post(`${path}/playground-key`))
  const people = await json<{ data: { id: string; email: string }[] }>(owner.browser.get(`${path}/people`))
  const id = people.data.find(({ email }) => email === developer.email)!.id
  const statuses = async () => {
    await app.app.noticeChanges()
    return Promise.all([plain, manage, second, playground].map(async key => (await useKey(key)).status))
  }
  return { path, owner, developer, id, manage, make, statuses, ofTheCommandLine }
}

test('a removal lists the keys of the person, and ends them with those that they made', async () => {
  const { path, owner, id, make, statuses, ofTheCommandLine } = await team()
  const ofTheOwner = await make(owner.browser, [])
  expect(await statuses()).toEqual([200, 200, 200, 200])
  const listed = await json<{ data: { name: string }[] }>(owner.browser.get(`${path}/people/${id}/keys`))
  expect(listed.data.map(({ name }) => name).sort()).toEqual(['manage', 'plain', 'second'])
  expect(await json(owner.browser.send('DELETE', `${path}/people/${id}`))).toEqual({
    removed: true,
    keys_revoked: 4,
    keys_handed_over: 0,
  })
  expect(await statuses()).toEqual([401, 401, 401, 401])
  for (const key of [ofTheOwner, ofTheCommandLine]) expect((await useKey(key)).status).toBe(200)
})

test('by choice the keys go over to the owner, except those that make keys', async () => {
  const { path, owner, id, statuses } = await team()
  expect(await readError(await owner.browser.send('DELETE', `${path}/people/${id}?keys=keep`))).toMatchObject({
    status: 400,
    param: 'keys',
  })
  expect(await json(owner.browser.send('DELETE', `${path}/people/${id}?keys=hand_over`))).toMatchObject({
    keys_revoked: 2,
    keys_handed_over: 2,
  })
  expect(await statuses()).toEqual([200, 401, 200, 401])
  const { data } = await json<{ data: { name: string; made_by: string }[] }>(owner.browser.get(`${path}/keys`))
  expect(
    data
      .filter(({ made_by: by }) => by === owner.email)
      .map(({ name }) => name)
      .sort(),
  ).toEqual(['plain', 'second'])
})

test('a person who leaves leaves no keys', async () => {
  const { path, developer, statuses } = await team()
  expect(await json(developer.browser.post(`${path}/leave`))).toMatchObject({ keys_revoked: 4 })
  expect(await statuses()).toEqual([401, 401, 401, 401])
})

test('a role without the right to make keys ends the keys that make keys', async () => {
  const { path, owner, id, statuses } = await team()
  await json(owner.browser.send('PATCH', `${path}/people/${id}`, { role: 'viewer' }))
  expect(await statuses()).toEqual([200, 401, 200, 401])
})

test('a key that a node still remembers makes no key after its revocation', async () => {
  const { path, owner, id, manage } = await team()
  expect((await useKey(manage)).status).toBe(200)
  // Nothing tells the node before it looks for changes.
  await json(owner.browser.send('DELETE', `${path}/people/${id}`))
  expect(await readError(await useKey(manage, { name: 'third' }))).toMatchObject({ status: 401 })
})

test('a session makes a key with the scope manage, or gives a key that scope, after a confirmation only', async () => {
  const { path, developer, make } = await team()
  await make(developer.browser, [])
  const { data } = await json<{ data: { id: string; scopes: string[] }[] }>(developer.browser.get(`${path}/keys`))
  const plain = data.find(({ scopes }) => scopes.length === 0)!.id
  nowMs += 601_000
  const refused = { status: 403, code: 'confirmation_required' }
  const scopes = ['manage']
  expect(await readError(await developer.browser.post(`${path}/keys`, { name: 'x', scopes }))).toMatchObject(refused)
  expect(await readError(await developer.browser.send('PATCH', `${path}/keys/${plain}`, { scopes }))).toMatchObject(
    refused,
  )
  expect((await developer.browser.post(`${path}/keys`, { name: 'x' })).status).toBe(200)
})
