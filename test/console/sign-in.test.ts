import { describe, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { makeInviteLink } from '../../src/identity/people/links.ts'
import { addPerson } from '../../src/identity/people/persons.ts'
import { BrowserClient, operatorToken, PASSWORD, signedInMember, tokenOf } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

let nowMs = Date.now()
const app = useTestApp({ clock: { epochMs: () => nowMs, monotonicMs: () => performance.now() } })
const browser = () => new BrowserClient(app.url)
const DAY_MS = 86_400_000

const member = (customerId: string) => signedInMember(app, customerId, 'owner', nowMs)

const session = async (client: BrowserClient) =>
  (await (await client.get('session')).json()) as {
    person: { id: string; email: string; role: string | null }
    memberships: { customer_id: string; role: string }[]
  }

async function invite(customerId: string, email: string): Promise<string> {
  return tokenOf(
    await transaction(app.database.pool, sql => makeInviteLink(sql, { customerId, email, role: 'viewer' }, nowMs)),
  )
}

describe('sign in', () => {
  test('a member signs in, sees the session, and signs out', async () => {
    const { customerId } = await app.customer()
    const { email } = await member(customerId)
    const client = browser()
    const entered = await client.post('sign-in', { email: email.toUpperCase(), password: PASSWORD })
    expect(entered.status).toBe(200)
    expect(entered.headers.get('cache-control')).toBe('no-store')
    expect(entered.headers.getSetCookie()[0]).toMatch(
      /^sy_session=[\w-]{43}; Expires=.* GMT; Path=\/; HttpOnly; SameSite=Strict$/,
    )
    expect(await session(client)).toMatchObject({
      person: { email, role: null },
      memberships: [{ customer_id: customerId, role: 'owner' }],
    })
    const { cookie } = client
    expect((await client.post('sign-out')).status).toBe(200)
    expect(client.cookie).toBeUndefined()
    const after = await client.send('GET', 'session', undefined, { cookie: cookie! })
    expect(await readError(after)).toMatchObject({ status: 401, code: 'not_signed_in' })
  })

  test('accounts that one browser signs in to, one after the other, are related by it', async () => {
    const [first, second, other] = [await app.customer(), await app.customer(), await app.customer()]
    const client = browser()
    for (const { customerId } of [first, second]) {
      const { email } = await member(customerId)
      const entered = await client.post('sign-in', { email, password: PASSWORD })
      expect(entered.headers.getSetCookie()[1]).toMatch(
        /^sy_device=[\w-]{43}; Expires=.* GMT; Path=\/; HttpOnly; SameSite=Strict$/,
      )
      expect((await client.post('sign-out')).status).toBe(200)
    }
    await member(other.customerId)
    const { pool } = app.database
    const hosterId = await app.hoster({ baseUrl: 'https://models.example.com/v1' })
    await pool.query(
      `INSERT INTO hoster_member (hoster_id, person_id, role) SELECT $1, person_id, 'owner' FROM membership WHERE customer_id = $2`,
      [hosterId, first.customerId],
    )
    const { rows } = await pool.query(
      `SELECT customer_id AS "customerId" FROM related_customers($1) WHERE evidence = 'device'`,
      [hosterId],
    )
    expect(rows).toEqual([{ customerId: second.customerId }])
    // A value that no gateway made is replaced, so that a browser cannot choose to share one.
    const { email } = await member(other.customerId)
    const entered = await browser().send('POST', 'sign-in', { email, password: PASSWORD }, { cookie: 'sy_device=x' })
    expect(entered.headers.getSetCookie()[1]).toMatch(/^sy_device=[\w-]{43};/)
  })

  test('an unknown address and a wrong password get the same answer', async () => {
    const { customerId } = await app.customer()
    const { email } = await member(customerId)
    const answers = await Promise.all(
      [email, 'nobody-has-this@example.com'].map(async address => {
        const response = await browser().post('sign-in', { email: address, password: 'not the password' })
        const { error } = (await response.json()) as { error: object }
        return { status: response.status, error }
      }),
    )
    expect(answers[0]).toEqual(answers[1])
    expect(answers[0]).toMatchObject({ status: 401, error: { code: 'wrong_credentials' } })
  })

  test('a new sign-in ends the session that the browser had, and its token differs', async () => {
    const { customerId } = await app.customer()
    const { browser: client, email } = await member(customerId)
    const before = client.cookie!
    await client.post('sign-in', { email, password: PASSWORD })
    expect(client.cookie).not.toBe(before)
    expect((await client.send('GET', 'session', undefined, { cookie: before })).status).toBe(401)
  })

  test('an invented cookie, and one that was sent twice, is no session', async () => {
    const { customerId } = await app.customer()
    const { browser: client } = await member(customerId)
    for (const cookie of [
      'sy_session=made-up',
      `${client.cookie}; ${client.cookie}`,
      'sy_session=',
      '__Host-sy_session=x',
    ]) {
      const response = await browser().send('GET', 'session', undefined, { cookie })
      expect(await readError(response)).toMatchObject({ status: 401, code: 'not_signed_in' })
    }
  })

  test('the database has neither passwords nor tokens', async () => {
    const { customerId } = await app.customer()
    const { browser: client } = await member(customerId)
    const { rows } = await app.database.pool.query<{ row: string }>(
      'SELECT person_session::text AS row FROM person_session UNION ALL SELECT person::text FROM person',
    )
    const text = rows.map(({ row }) => row).join('\n')
    expect(text).toContain('$argon2id$v=19$m=19456,t=2,p=1$')
    expect(text).not.toContain(PASSWORD)
    expect(text).not.toContain(client.cookie!.split('=')[1])
  })

  test('the sixth guess from a network waits, and a right password clears the count', async () => {
    const { customerId } = await app.customer()
    const { email } = await member(customerId)
    const guess = (password: string) => browser().post('sign-in', { email, password })
    for (let n = 0; n < 5; n++) expect((await guess('wrong')).status).toBe(401)
    expect((await guess('wrong')).status).toBe(401)
    const waiting = await guess(PASSWORD)
    expect(await readError(waiting)).toMatchObject({ status: 429, code: 'too_many_attempts' })
    expect(waiting.headers.get('retry-after')).toBe('1')
    nowMs += 1_000
    expect((await guess('wrong')).status).toBe(401)
    expect((await guess('wrong')).headers.get('retry-after')).toBe('2')
    nowMs += 2_000
    expect((await guess(PASSWORD)).status).toBe(200)
    expect((await guess('wrong')).status).toBe(401)
    expect((await guess(PASSWORD)).status).toBe(200)
  })

  test('guesses at the same time all count', async () => {
    const { customerId } = await app.customer()
    const { email } = await member(customerId)
    await Promise.all(Array.from({ length: 12 }, () => browser().post('sign-in', { email, password: 'wrong' })))
    expect((await browser().post('sign-in', { email, password: PASSWORD })).status).toBe(429)
  })

  test('a free failure refuses no attempt that took its time earlier and waited for a lock', async () => {
    const { customerId } = await app.customer()
    const { email } = await member(customerId)
    expect((await browser().post('sign-in', { email, password: 'wrong' })).status).toBe(401)
    nowMs -= 10
    expect((await browser().post('sign-in', { email, password: PASSWORD })).status).toBe(200)
    nowMs += 10
  })

  test('a password is never repeated in an error', async () => {
    for (const password of [['secret-in-a-list'], 'x'.repeat(2_000), 5])
      expect(await (await browser().post('sign-in', { email: 'a@example.com', password })).text()).not.toMatch(
        /secret|xxx/,
      )
    const misspelt = await browser().post('sign-in', { email: 'a@example.com', passwort: 'secret' })
    expect(await misspelt.text()).not.toContain('secret')
  })
})

describe('sessions', () => {
  test('end after 14 days without use, and after 90 days', async () => {
    const { customerId } = await app.customer()
    const { browser: client } = await member(customerId)
    for (let day = 0; day < 80; day += 10) {
      nowMs += 10 * DAY_MS
      expect((await client.get('session')).status).toBe(200)
    }
    nowMs += 10 * DAY_MS
    expect((await client.get('session')).status).toBe(401)
    const { browser: idle } = await member(customerId)
    nowMs += 14 * DAY_MS
    expect((await idle.get('session')).status).toBe(401)
  })

  test('of operators end after 12 hours without use, and after 7 days', async () => {
    const { token } = await operatorToken(app, 'op-sessions@example.com', nowMs)
    const client = browser()
    expect((await client.post('welcome', { token, password: PASSWORD })).status).toBe(200)
    for (let hours = 0; hours < 7 * 24 - 10; hours += 10) {
      nowMs += 10 * 3_600_000
      expect((await client.get('session')).status).toBe(200)
    }
    nowMs += 10 * 3_600_000
    expect((await client.get('session')).status).toBe(401)
  })

  test('are listed, and end elsewhere at once', async () => {
    const { customerId } = await app.customer()
    const { browser: here, email } = await member(customerId)
    const there = browser()
    await there.post('sign-in', { email, password: PASSWORD })
    const { data } = (await (await here.get('sessions')).json()) as { data: { id: string; is_current: boolean }[] }
    expect(data.map(({ is_current }) => is_current).sort()).toEqual([false, true])
    const other = data.find(({ is_current }) => !is_current)!
    expect((await here.send('DELETE', `sessions/${other.id}`)).status).toBe(200)
    expect((await there.get('session')).status).toBe(401)
    expect(await readError(await here.send('DELETE', `sessions/${other.id}`))).toMatchObject({ code: 'not_found' })

    const { browser: stranger } = await member(customerId)
    const own = data.find(({ is_current }) => is_current)!
    expect((await stranger.send('DELETE', `sessions/${own.id}`)).status).toBe(404)
    await there.post('sign-in', { email, password: PASSWORD })
    expect(await (await here.post('sessions/end-others')).json()).toEqual({ ended: 1 })
    expect((await there.get('session')).status).toBe(401)
    expect((await here.get('session')).status).toBe(200)
  })

  test('a changed password ends all sessions but opens a new one', async () => {
    const { customerId } = await app.customer()
    const { browser: client, email } = await member(customerId)
    const old = client.cookie!
    const wrong = await client.post('password', { current_password: 'wrong', new_password: 'another long password' })
    // Nobody typed an address here.
    expect(await readError(wrong)).toMatchObject({
      code: 'wrong_credentials',
      message: 'The password is wrong. Type it again.',
    })
    const short = await client.post('password', { current_password: PASSWORD, new_password: 'short' })
    expect(await readError(short)).toMatchObject({ status: 400, param: 'new_password' })
    const changed = await client.post('password', {
      current_password: PASSWORD,
      new_password: 'another long password',
    })
    expect(changed.status).toBe(200)
    expect((await client.get('session')).status).toBe(200)
    expect((await client.send('GET', 'session', undefined, { cookie: old })).status).toBe(401)
    expect((await browser().post('sign-in', { email, password: PASSWORD })).status).toBe(401)
    expect((await browser().post('sign-in', { email, password: 'another long password' })).status).toBe(200)
  })
})

describe('links', () => {
  test('the first operator sets a password once, and may correct the address', async () => {
    const { token } = await operatorToken(app, 'first-op@example.com', nowMs)
    const client = browser()
    const short = await client.post('welcome', { token, password: 'too short' })
    expect(await readError(short)).toMatchObject({ status: 400, param: 'password' })
    const entered = await client.post('welcome', { token, email: 'boss@example.com', password: PASSWORD })
    expect(entered.status).toBe(200)
    expect((await session(client)).person).toMatchObject({ email: 'boss@example.com', role: 'operator' })
    const again = await browser().post('welcome', { token, password: 'an attacker comes later' })
    expect(await readError(again)).toMatchObject({ status: 404, code: 'link_expired' })
    expect((await browser().post('sign-in', { email: 'boss@example.com', password: PASSWORD })).status).toBe(200)
  })

  test('two people cannot use one link at the same time', async () => {
    const { token } = await operatorToken(app, 'race-op@example.com', nowMs)
    const answers = await Promise.all(
      Array.from({ length: 4 }, (_, n) => browser().post('welcome', { token, password: `password number ${n}` })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404])
  })

  test('are refused when they are too old or for something else', async () => {
    const { token } = await operatorToken(app, 'late-op@example.com', nowMs)
    const { customerId } = await app.customer()
    const invitation = await invite(customerId, 'late@example.com')
    expect((await browser().post('welcome', { token: invitation, password: PASSWORD })).status).toBe(404)
    expect((await browser().post('join', { token, password: PASSWORD })).status).toBe(404)
    nowMs += 8 * DAY_MS
    expect((await browser().post('welcome', { token, password: PASSWORD })).status).toBe(404)
    expect((await browser().post('invite', { token: invitation })).status).toBe(404)
  })

  test('an invitation of a person with an account needs the password of that account', async () => {
    const [first, second] = [await app.customer(), await app.customer()]
    const { email } = await member(first.customerId)
    const token = await invite(second.customerId, email)
    expect(await (await browser().post('invite', { token })).json()).toMatchObject({ email, has_password: null })
    expect((await browser().post('join', { token, password: 'a password of another person' })).status).toBe(401)
    const client = browser()
    expect((await client.post('join', { token, password: PASSWORD })).status).toBe(200)
    expect((await session(client)).memberships).toHaveLength(2)
    expect((await browser().post('join', { token, password: PASSWORD })).status).toBe(404)
  })

  test('an invitation cannot take over the account of an operator without a password', async () => {
    const { customerId } = await app.customer()
    await addPerson(app.database.pool, { email: 'silent-op@example.com', installationRole: 'operator' })
    const token = await invite(customerId, 'silent-op@example.com')
    const refused = await browser().post('join', { token, password: PASSWORD })
    expect(await readError(refused)).toMatchObject({ status: 404, code: 'link_expired' })
    const { rows } = await app.database.pool.query(
      "SELECT password_hash FROM person WHERE email = 'silent-op@example.com'",
    )
    expect(rows).toEqual([{ password_hash: null }])
  })
})

describe('requests of other sites', () => {
  test('change nothing', async () => {
    const { customerId } = await app.customer()
    const { browser: client } = await member(customerId)
    for (const headers of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': '', origin: 'https://evil.example' },
    ]) {
      const response = await client.send('POST', 'sign-out', {}, headers)
      expect(await readError(response)).toMatchObject({ status: 403, code: 'cross_site_request' })
    }
    expect((await client.get('session')).status).toBe(200)
  })

  test('get no CORS headers, and a form is refused', async () => {
    const response = await fetch(`${app.url}/console/api/sign-in`, {
      method: 'POST',
      headers: { origin: 'https://evil.example', 'content-type': 'text/plain' },
      body: '{}',
    })
    expect(response.status).toBe(403)
    expect(response.headers.get('access-control-allow-origin')).toBeNull()
    const own = await fetch(`${app.url}/console/api/sign-in`, {
      method: 'POST',
      headers: { origin: app.url, 'content-type': 'text/plain' },
      body: '{}',
    })
    expect(await readError(own)).toMatchObject({ status: 415 })
  })
})
