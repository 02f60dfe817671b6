import { expect, test } from 'vitest'
import { operatorEndpoints } from '../../src/http/endpoints/operator/operator-endpoints.ts'
import { openSession } from '../../src/identity/people/sessions.ts'
import { addHosterMember } from '../../src/market/marketplace/hoster-members.ts'
import { readPage, tableRows } from '../docs/page.ts'
import { signedInOperator } from '../harness/browser-client.ts'
import { routesOf } from '../harness/routes-of.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const app = useTestApp(() => ({ yaml: 'hosters:\n  allow_private_urls: true\n' }))
const ID = '00000000-0000-4000-8000-000000000000'

/**
 * Every change that a person can make in the console without a confirmation, with the reason. A new change needs one, or a line here.
 * Paths are below /console/api.
 */
const unconfirmed: Readonly<Record<string, string>> = {
  'POST sign-out': 'ends something',
  'POST sessions/end-others': 'ends something',
  'DELETE sessions/:session_id': 'ends something',
  'POST confirm': 'is the confirmation',
  'POST passkeys/confirm/start': 'begins the confirmation',
  'POST oidc/confirm/start': 'begins the confirmation',
  'POST password': 'takes the current password',
  'POST person/email/confirm': 'takes the link of a mail that a confirmed session asked for',
  'PATCH person': 'a name opens nothing',
  'PATCH factors/passkeys/:passkey_id': 'a name opens nothing',
  'POST customers/:customer_id/leave': 'ends something',
  'DELETE customers/:customer_id/invites/:invite_id': 'ends something',
  'POST customers/:customer_id/keys': 'only with the scope manage: issue-36-keys-of-removed-members',
  'PATCH customers/:customer_id/keys/*': 'only with the scope manage: issue-36-keys-of-removed-members',
  'DELETE customers/:customer_id/keys/*': 'ends something',
  'POST customers/:customer_id/keys/:id/rotate': 'only with the scope manage, as a new key',
  'POST customers/:customer_id/keys/find': 'changes nothing; the key is in no address',
  'POST customers/:customer_id/playground-key': 'other keys need none either, and this one ends after hours',
  'DELETE customers/:customer_id/alerts/:id': 'ends something',
  'POST customers/:customer_id/alerts/:id/test': 'goes to an address that a confirmed session named',
  'POST customers/:customer_id/top-ups': 'the payer confirms it at the provider',
  'POST customers/:customer_id/top-ups/:payment_id/cancel': 'ends something',
  'DELETE customers/:customer_id/auto-top-up': 'ends something',
  'DELETE customers/:customer_id/request-sharing': 'ends something',
  'DELETE customers/:customer_id/payment-methods/:method_id': 'ends something',
  'POST customers/:customer_id/vouchers/redeem': 'takes the code of a voucher',
  'DELETE hosters/:hoster_id/keys/:key_id': 'ends something',
  'DELETE hosters/:hoster_id/invites/:invite_id': 'ends something',
  'DELETE operator/invites/:invite_id': 'takes access away',
  'DELETE operator/people/:person_id/invite': 'takes access away',
  'POST hosters/:hoster_id/leave': 'ends something',
  'POST hosters/:hoster_id/payout-changes/:change_id/stop': 'ends something',
  'POST hosters/:hoster_id/verification': 'asks the server of the hoster again',
  'POST hosters/:hoster_id/appeal': 'a text for the operator',
  'DELETE operator/customers/:customer_id/keys/:key_id': 'ends something',
  'DELETE operator/keys/:key_id': 'ends something',
  'POST operator/customer-keys/find': 'changes nothing; the key is in no address',
  'POST operator/customers/:customer_id/keys/:key_id/pause': 'ends something',
  'POST operator/setup/mail-test': 'goes to the address of the operator',
  'POST operator/setup/payments-test': 'asks the payment services whether they answer',
  'POST operator/payments/reconcile': 'books what the payment providers report',
  'POST operator/customers/:customer_id/grants': 'a dry run needs none: operator-customers',
  'POST operator/customers/:customer_id/refunds': 'a dry run needs none: operator-customers',
}

/** Addresses for people who are not signed in. */
const outside = new Set([
  'sign-in',
  'welcome',
  'invite',
  'join',
  'passkeys/sign-in/start',
  'passkeys/sign-in',
  'oidc/start',
  'oidc/finish',
  'oidc/factor',
  'sign-up',
  'sign-up/link',
  'verify',
  'forgot',
  'reset',
])

const changes = () =>
  routesOf(app.app.server.printRoutes()).flatMap(route => {
    const [, method, path] = /^(POST|PUT|PATCH|DELETE) \/console\/api\/(.+)$/.exec(route) ?? []
    return method === undefined || path === undefined ? [] : [{ method, path }]
  })

/** A person with every role here. Each request has a session of its own, because some changes end it. */
async function almightyPerson({ isConfirmed }: { isConfirmed: boolean }) {
  const { pool } = app.database
  const { customerId } = await app.customer()
  const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:9' })
  const { personId } = await signedInOperator(app)
  const owner = [customerId, personId]
  await pool.query("INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'owner')", owner)
  await addHosterMember(pool, { hosterId, personId, role: 'owner' })

  return async ({ method, path }: { method: string; path: string }, body: string) => {
    const person = { personId, installationRole: 'operator' } as const
    const client = { address: '127.0.0.1', userAgent: '' }
    const { token, sessionId } = await openSession(pool, person, client, Date.now(), { isFromHost: true })
    if (!isConfirmed) {
      const late = "UPDATE person_session SET confirmed_at = now() - interval '11 minutes' WHERE session_id = $1"
      await pool.query(late, [sessionId])
    }
    const filled = path
      .replace(':customer_id', customerId)
      .replace(':hoster_id', hosterId)
      .replace(/:\w+|\*/g, ID)
    const response = await fetch(`${app.url}/console/api/${filled}`, {
      method,
      headers: { cookie: `sy_session=${token}`, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' },
      ...(method !== 'DELETE' && { body }),
    })
    const { error } = (await response.json()) as { error?: { code: string; message: string; param: string | null } }
    return { status: response.status, ...error }
  }
}

test('every change needs a confirmation of the last 10 minutes, except those that are listed', async () => {
  const send = await almightyPerson({ isConfirmed: false })
  const inside = changes().filter(({ path }) => !outside.has(path))
  const found = new Set<string>()
  for (const change of inside) {
    if ((await send(change, '{}')).code !== 'confirmation_required') found.add(`${change.method} ${change.path}`)
  }
  expect(inside.length).toBeGreaterThan(80)
  expect([...found].sort()).toEqual(Object.keys(unconfirmed).sort())
})

test('__proto__ is an unknown field as any other, in every body', async () => {
  const send = await almightyPerson({ isConfirmed: true })
  const refused = []
  for (const change of changes().filter(({ method }) => method !== 'DELETE')) {
    const named = await send(change, '{"unheard_of": {"role": "owner"}}')
    const proto = await send(change, '{"__proto__": {"role": "owner"}}')
    if (named.param === 'unheard_of') {
      refused.push(change.path)
      const message = named.message!.replace('unheard_of', '__proto__')
      expect({ ...change, ...proto }).toEqual({ ...change, ...named, param: '__proto__', message })
    } else
      expect({ ...change, status: proto.status, code: proto.code }).toEqual({
        ...change,
        status: named.status,
        code: named.code,
      })
  }
  expect(refused.length).toBeGreaterThan(15)
  const nested = '{"limits": {"__proto__": {"requests_per_day": 1}}}'
  const limits = await send({ method: 'PATCH', path: 'operator/customers/:customer_id' }, nested)
  expect(limits).toMatchObject({ status: 400, code: 'invalid_value', param: 'limits.__proto__' })
})

test('docs/console-api.md says which changes of operators need a confirmation', () => {
  const served = operatorEndpoints({} as never).flatMap(({ method, path, needsConfirmation }) =>
    needsConfirmation ? [`${method} ${path.slice('/console/api/operator/'.length).replace(/:(\w+)/g, '{$1}')}`] : [],
  )
  const named = tableRows(readPage('docs/console-api.md'), "operator's address").flatMap(([address, confirmation]) =>
    confirmation === 'yes' ? [address] : [],
  )
  expect(named.sort()).toEqual(served.sort())
})
