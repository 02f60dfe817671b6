import { expect, test } from 'vitest'
import { BrowserClient, PASSWORD, signedInMember, tokenOf } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

let nowMs = Date.now()
const app = useTestApp({ clock: { epochMs: () => nowMs, monotonicMs: () => performance.now() } })

interface Shown {
  id: string
  email: string
  role: string
  is_you: boolean
}
const list = async (browser: BrowserClient, path: string) =>
  ((await (await browser.get(path)).json()) as { data: Shown[] }).data

async function customerWithOwner() {
  const { customerId } = await app.customer()
  const owner = await signedInMember(app, customerId, 'owner', nowMs)
  const path = `customers/${customerId}`
  const idOf = async (email: string) =>
    (await list(owner.browser, `${path}/people`)).find(each => each.email === email)!.id
  return { customerId, path, idOf, ...owner }
}

test('an owner invites a person, who joins with the link that is shown once', async () => {
  const { path, browser, email } = await customerWithOwner()
  const made = await browser.post(`${path}/invites`, { email: 'new@example.com', role: 'developer' })
  const invite = (await made.json()) as { id: string; is_mailed: boolean; url: string }
  expect(invite).toMatchObject({ email: 'new@example.com', role: 'developer', is_mailed: false, made_by: email })
  expect(invite.url).toMatch(new RegExp(`^${app.url}/invite#[\\w-]{43}$`))
  const listed = await (await browser.get(`${path}/invites`)).json()
  expect(listed).toMatchObject({ data: [{ id: invite.id, role: 'developer' }] })
  expect(JSON.stringify(listed)).not.toContain(tokenOf(invite.url))
  const joined = await new BrowserClient(app.url).post('join', { token: tokenOf(invite.url), password: PASSWORD })
  expect(joined.status).toBe(200)
  expect(await list(browser, `${path}/invites`)).toEqual([])
  const people = await list(browser, `${path}/people`)
  expect(people).toMatchObject([
    { email, role: 'owner', is_you: true },
    { email: 'new@example.com', role: 'developer', is_you: false },
  ])
  const again = await browser.post(`${path}/invites`, { email: 'NEW@example.com', role: 'viewer' })
  expect(await readError(again)).toMatchObject({ status: 400, param: 'email' })
})

test('an invitation that was taken back, or replaced, opens nothing', async () => {
  const { path, browser } = await customerWithOwner()
  const make = async () =>
    (await (await browser.post(`${path}/invites`, { email: 'gone@example.com', role: 'viewer' })).json()) as {
      id: string
      url: string
    }
  const [first, second] = [await make(), await make()]
  const join = ({ url }: { url: string }) =>
    new BrowserClient(app.url).post('join', { token: tokenOf(url), password: PASSWORD })
  expect((await join(first)).status).toBe(404)
  const other = await customerWithOwner()
  expect((await other.browser.send('DELETE', `${other.path}/invites/${second.id}`)).status).toBe(404)
  expect((await browser.send('DELETE', `${path}/invites/${second.id}`)).status).toBe(200)
  expect((await join(second)).status).toBe(404)
})

test('two people at once use an invitation once', async () => {
  const { path, browser } = await customerWithOwner()
  const made = await browser.post(`${path}/invites`, { email: 'twice@example.com', role: 'viewer' })
  const token = tokenOf(((await made.json()) as { url: string }).url)
  const answers = await Promise.all(
    Array.from({ length: 4 }, (_, n) =>
      new BrowserClient(app.url).post('join', { token, password: `password number ${n}` }),
    ),
  )
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
})

test('an owner changes roles and removes members', async () => {
  const { customerId, path, idOf, browser } = await customerWithOwner()
  const colleague = await signedInMember(app, customerId, 'viewer', nowMs)
  const id = await idOf(colleague.email)
  expect((await colleague.browser.get(`${path}/keys`)).status).toBe(403)
  expect(await (await browser.send('PATCH', `${path}/people/${id}`, { role: 'developer' })).json()).toMatchObject({
    role: 'developer',
  })
  expect((await colleague.browser.get(`${path}/keys`)).status).toBe(200)
  expect((await browser.send('DELETE', `${path}/people/${id}`)).status).toBe(200)
  expect((await colleague.browser.get(`${path}/keys`)).status).toBe(404)
  expect((await browser.send('DELETE', `${path}/people/${id}`)).status).toBe(404)
  const { rows } = await app.database.pool.query(
    'SELECT action FROM audit_entry WHERE customer_id = $1 ORDER BY entry_id DESC LIMIT 2',
    [customerId],
  )
  expect(rows.map(({ action }) => action)).toEqual(['member.removed', 'member.role_changed'])
})

test('only owners see and change people', async () => {
  const { customerId, path, idOf, email } = await customerWithOwner()
  const id = await idOf(email)
  for (const role of ['developer', 'billing', 'viewer'] as const) {
    const { browser } = await signedInMember(app, customerId, role, nowMs)
    for (const [method, what, body] of [
      ['GET', 'people', undefined],
      ['GET', 'invites', undefined],
      ['POST', 'invites', { email: 'x@example.com', role: 'owner' }],
      ['PATCH', `people/${id}`, { role: 'viewer' }],
      ['DELETE', `people/${id}`, undefined],
    ] as const)
      expect(await readError(await browser.send(method, `${path}/${what}`, body))).toMatchObject({ status: 403 })
    expect((await browser.post(`${path}/leave`)).status).toBe(200)
    expect((await browser.get(`${path}/credits`)).status).toBe(404)
  }
})

test('the last owner stays, also when two owners remove each other at once', async () => {
  const { customerId, path, idOf, browser, email } = await customerWithOwner()
  const id = await idOf(email)
  for (const send of [
    () => browser.send('PATCH', `${path}/people/${id}`, { role: 'viewer' }),
    () => browser.send('DELETE', `${path}/people/${id}`),
    () => browser.post(`${path}/leave`),
  ])
    expect(await readError(await send())).toMatchObject({ status: 409, code: 'last_owner' })

  for (let round = 0; round < 5; round++) {
    const [a, b] = [
      await signedInMember(app, customerId, 'owner', nowMs),
      await signedInMember(app, customerId, 'owner', nowMs),
    ]
    const [idA, idB] = [await idOf(a.email), await idOf(b.email)]
    await app.database.pool.query('DELETE FROM membership WHERE customer_id = $1 AND person_id <> ALL ($2)', [
      customerId,
      [idA, idB],
    ])
    const answers = await Promise.all([
      a.browser.send('DELETE', `${path}/people/${idB}`),
      b.browser.send('PATCH', `${path}/people/${idA}`, { role: 'viewer' }),
    ])
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    const { rows } = await app.database.pool.query("SELECT FROM membership WHERE customer_id = $1 AND role = 'owner'", [
      customerId,
    ])
    expect(rows).toHaveLength(1)
    await app.database.pool.query(
      'INSERT INTO membership SELECT $1, person_id, $3 FROM person WHERE email = $2 ON CONFLICT (customer_id, person_id) DO UPDATE SET role = $3',
      [customerId, email, 'owner'],
    )
  }
})

test('an invitation of a lower role leaves an owner an owner', async () => {
  const { path, browser, email, customerId } = await customerWithOwner()
  const { rows } = await app.database.pool.query<{ id: string }>(
    'SELECT person_id AS id FROM person WHERE email = $1',
    [email],
  )
  await app.database.pool.query('DELETE FROM membership WHERE customer_id = $1', [customerId])
  const other = await signedInMember(app, customerId, 'owner', nowMs)
  const made = await other.browser.post(`${path}/invites`, { email, role: 'viewer' })
  const { url } = (await made.json()) as { url: string }
  await app.database.pool.query("INSERT INTO membership VALUES ($1, $2, 'owner')", [customerId, rows[0]!.id])
  expect((await browser.post('join', { token: tokenOf(url), password: PASSWORD })).status).toBe(200)
  expect(await list(browser, `${path}/people`)).toContainEqual(expect.objectContaining({ email, role: 'owner' }))
})

test('changes of roles need a confirmation of the last 10 minutes', async () => {
  const { path, browser, idOf, email } = await customerWithOwner()
  const id = await idOf(email)
  nowMs += 601_000
  for (const [method, what, body] of [
    ['POST', 'invites', { email: 'late@example.com', role: 'viewer' }],
    ['PATCH', `people/${id}`, { role: 'owner' }],
    ['DELETE', `people/${id}`, undefined],
  ] as const)
    expect(await readError(await browser.send(method, `${path}/${what}`, body))).toMatchObject({
      status: 403,
      code: 'confirmation_required',
    })
  expect((await browser.post('confirm', { password: PASSWORD })).status).toBe(200)
  expect((await browser.send('PATCH', `${path}/people/${id}`, { role: 'owner' })).status).toBe(200)
})

test('unknown fields and roles are refused', async () => {
  const { path, browser, idOf, email } = await customerWithOwner()
  const id = await idOf(email)
  for (const body of [{ role: 'operator' }, { role: 'owner', installation_role: 'operator' }, {}, { role: null }])
    expect((await browser.send('PATCH', `${path}/people/${id}`, body)).status).toBe(400)
  for (const body of [
    { email: 'a@b' },
    { email: 'no address', role: 'viewer' },
    { email: 'a@b', role: 'viewer', customer_id: id },
  ])
    expect((await browser.post(`${path}/invites`, body)).status).toBe(400)
})
