import { createHook } from 'node:async_hooks'
import { expect, test } from 'vitest'
import { autoTopUpEndpoints } from '../../src/http/endpoints/auto-top-up.ts'
import { factorEndpoints } from '../../src/http/endpoints/factors.ts'
import { oidcEndpoints } from '../../src/http/endpoints/oidc.ts'
import { operatorEndpoints } from '../../src/http/endpoints/operator/operator-endpoints.ts'
import { passkeyEndpoints } from '../../src/http/endpoints/passkeys.ts'
import { paymentEndpoints } from '../../src/http/endpoints/payments.ts'
import { peopleEndpoints } from '../../src/http/endpoints/people.ts'
import { profileEndpoints } from '../../src/http/endpoints/profile.ts'
import { sessionEndpoints } from '../../src/http/endpoints/session.ts'
import { signUpEndpoints } from '../../src/http/endpoints/sign-up.ts'
import { BrowserClient, PASSWORD, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const app = useTestApp()
const browser = () => new BrowserClient(app.url)
const ID = '00000000-0000-4000-8000-000000000000'

const unused = {} as never
const changes = [
  ...sessionEndpoints(unused),
  ...factorEndpoints(unused),
  ...profileEndpoints(unused),
  ...passkeyEndpoints(unused),
  ...oidcEndpoints(unused),
  ...signUpEndpoints(unused),
  ...peopleEndpoints(unused),
  ...paymentEndpoints(unused),
  ...autoTopUpEndpoints(unused),
  ...operatorEndpoints(unused),
].filter(({ method }) => method !== 'GET')

test('every address that changes something refuses other sites', async () => {
  expect(changes.length).toBeGreaterThan(50)
  const { browser: operator } = await signedInOperator(app)
  for (const { method, path } of changes) {
    const address = path.replace('/console/api/', '').replace(/:\w+/g, ID)
    for (const headers of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': '', origin: 'https://evil.example' },
    ]) {
      const answer = await operator.send(method, address, {}, headers)
      expect({ method, path, ...(await readError(answer)) }).toMatchObject({ status: 403, code: 'cross_site_request' })
    }
  }
})

test('an unknown address costs the same work as a wrong password: one hash', async () => {
  const { customerId } = await app.customer()
  const { email } = await signedInMember(app, customerId)
  let hashes = 0
  const hook = createHook({
    init(_, type) {
      if (/ARGON2/i.test(type)) hashes++
    },
  }).enable()
  const counts: number[] = []
  for (const address of [email, 'nobody-at-all@example.com']) {
    hashes = 0
    expect((await browser().post('sign-in', { email: address, password: 'wrong password here' })).status).toBe(401)
    counts.push(hashes)
  }
  hook.disable()
  expect(counts).toEqual([1, 1])
})

test('an address that a client invents in X-Forwarded-For is no new allowance', async () => {
  const { customerId } = await app.customer()
  const { email } = await signedInMember(app, customerId)
  const statuses: number[] = []
  for (let n = 0; n < 8; n++) {
    const client = new BrowserClient(app.url, { 'x-forwarded-for': `203.0.113.${n}`, forwarded: `for=203.0.113.${n}` })
    statuses.push((await client.post('sign-in', { email, password: 'wrong password here' })).status)
  }
  expect(statuses.at(-1)).toBe(429)
})

test.each([
  ['sign-in', { email: 'a@example.com', password: PASSWORD }],
  ['welcome', { token: 'x', password: PASSWORD }],
  ['join', { token: 'x', password: PASSWORD }],
  ['verify', { token: 'x', password: PASSWORD }],
  ['reset', { token: 'x', password: PASSWORD }],
  ['password', { current_password: PASSWORD, new_password: 'a new long password' }],
  ['confirm', { password: PASSWORD }],
  ['person/email', { email: 'a@example.com' }],
  ['factors/totp', { code: '123456' }],
  ['oidc/start', { provider: 'x' }],
])('%s sets nothing that it does not name', async (path, body) => {
  const { customerId } = await app.customer()
  const { browser: client, email } = await signedInMember(app, customerId)
  for (const field of [
    'role',
    'installation_role',
    'person_id',
    'email_verified_at',
    'has_second_factor',
    'customer_id',
  ]) {
    const answer = await client.post(path, { ...body, [field]: 'operator' })
    expect({ field, ...(await readError(answer)) }).toMatchObject({ status: 400, param: field })
  }
  const { rows } = await app.database.pool.query('SELECT installation_role FROM person WHERE email = $1', [email])
  expect(rows).toEqual([{ installation_role: null }])
})

test.each(['passwordpassword', 'Football2026!', '123456789012', 'switchyard2026'])(
  'the common password %s is refused wherever one is set',
  async password => {
    const { customerId } = await app.customer()
    const { browser: client } = await signedInMember(app, customerId)
    const change = await client.post('password', { current_password: PASSWORD, new_password: password })
    expect(await readError(change)).toMatchObject({ status: 400, code: 'invalid_value', param: 'new_password' })
    const made = await client.post(`customers/${customerId}/invites`, { email: 'new@example.com', role: 'viewer' })
    const { url } = (await made.json()) as { url: string }
    const join = await browser().post('join', { token: url.split('#')[1], password })
    expect(await readError(join)).toMatchObject({ status: 400, param: 'password' })
    expect(await join.text().catch(() => '')).not.toContain(password)
  },
)
