import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp } from '../harness/app.ts'
import { BrowserClient } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey } from '../harness/hosters.ts'
import { type ScriptedStripe, sendEvent, startScriptedStripe, WEBHOOK_SECRET } from './scripted-stripe.ts'

// Machines that know a secret send bodies of every kind: events of the payment provider, requests of hosters, and returns from an identity
// provider. None is an internal error, and none moves money.

let stripe: ScriptedStripe
let app: TestApp

beforeAll(async () => {
  stripe = await startScriptedStripe()
  app = await startTestApp({
    yaml: `payments:
  stripe: { secret_key: sk_test_x, webhook_secret: ${WEBHOOK_SECRET}, api_url: "${stripe.url}" }
payouts:
  stripe: true
accounts:
  oidc:
    - { id: gone, name: Gone, issuer: "http://127.0.0.1:1", client_id: x }
`,
  })
})
afterAll(async () => {
  await app.close()
  await stripe.close()
})

/** JSON of every kind, and nearly JSON. */
const bodies = [
  '',
  ' ',
  '[]',
  'null',
  '1',
  '1e400',
  '-0',
  '"x"',
  'true',
  '{}',
  '[{}]',
  '{',
  '\0',
  '\ufeff{}',
  '[['.repeat(50_000),
]
const values: readonly unknown[] = [
  null,
  1,
  1e21,
  -1,
  1.5,
  '',
  'x',
  '\0',
  '\ud800',
  'x'.repeat(300),
  true,
  [],
  [null],
  {},
  { id: 1 },
  { toString: 1 },
]

const event = (more: object) =>
  JSON.stringify({ id: `evt_${randomUUID()}`, type: 'checkout.session.completed', ...more })
const about = (object: unknown) => event({ data: { object } })

const ids = [...values, 'cs_test_unknown', 'pi_unknown', 'tr_unknown', 'acct_unknown', '../accounts', 'cs_test_a/b?c']
const events = [
  ...values.map(id => event({ id, data: { object: { id: 'cs_test_x', object: 'checkout.session' } } })),
  ...values.map(type => event({ type, data: { object: { id: 'cs_test_x', object: 'checkout.session' } } })),
  ...values.map(data => event({ data })),
  ...values.map(object => about(object)),
  ...values.map(object => about({ id: 'cs_test_x', object })),
  ...['checkout.session', 'payment_intent', 'charge', 'refund', 'dispute', 'transfer', 'account', 'balance'].flatMap(
    object =>
      ids.flatMap(id => [
        about({ id, object }),
        about({ object, payment_intent: id }),
        about({ object, payment_intent: { id } }),
      ]),
  ),
  event({ object: 'v2.core.event', related_object: { id: 'x' } }),
]

test('a signed body of any kind is refused or ignored, and gives no credit', async () => {
  for (const body of [...bodies, ...events]) {
    const response = await sendEvent(app.url, body)
    const answer = await response.text()
    expect([200, 400], `${body.slice(0, 200)}: ${answer}`).toContain(response.status)
  }
  for (const body of ['[]', 'null', '1', '"x"', '{}']) {
    expect(await readError(await sendEvent(app.url, body))).toMatchObject({ status: 400, code: 'invalid_json' })
  }
  const { rows } = await app.database.pool.query('SELECT FROM ledger_tx WHERE kind <> $1', ['signup_credit'])
  expect(rows).toEqual([])
  // What names nothing of ours does not wait for anything.
  const waiting = await app.database.pool.query('SELECT FROM payment_event WHERE handled_at IS NULL')
  expect(waiting.rows).toEqual([])
})

test('other addresses with a secret refuse bodies of every kind', async () => {
  const hosterId = await app.hoster({ baseUrl: 'https://models.acme.dev/v1' })
  const { key } = await hosterKey(app, hosterId)
  const hosterPaths = [
    ['PUT', 'hoster/manifest', 'models'],
    ['PUT', 'hoster/server', 'base_url'],
    ['POST', 'hoster/state', 'state'],
    ['POST', 'hoster/appeal', 'text'],
    ['POST', 'hoster/keys', 'name'],
    ['POST', 'hoster/verification', 'x'],
    ['POST', 'hoster/earnings/move', 'amount_usd'],
  ] as const
  for (const [method, path, field] of hosterPaths) {
    for (const body of [...bodies, ...values.map(value => JSON.stringify({ [field]: value }))]) {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const response = await fetch(`${app.url}/v1/${path}`, { method, headers, body })
      const seen = `${path} ${body.slice(0, 200)}: ${await response.text()}`
      expect(response.status, seen).toBeLessThan(500)
      expect([404, 405], seen).not.toContain(response.status)
    }
  }
  const browser = new BrowserClient(app.url)
  for (const value of values) {
    for (const body of [
      { query: value },
      { provider: value },
      { query: `?state=${encodeURIComponent(JSON.stringify(value))}&code=x` },
      value,
    ]) {
      for (const path of ['oidc/finish', 'oidc/start']) {
        const response = await browser.post(path, body as object)
        expect(response.status, `${path} ${JSON.stringify(body)}: ${await response.text()}`).toBeLessThan(500)
      }
    }
  }
})
