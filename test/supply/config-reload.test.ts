import { beforeAll, expect, test } from 'vitest'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const fileWith = (output: string, more = '') => `
${more}
endpoints:
  - name: in-file
    kind: local
    base_url: ${upstream.baseUrl}
    api_key: sk-first-secret
    models: [{ id: file-model, upstream_model: test-model, price_per_million_usd: { input: 1, output: ${output} } }]
`
const app = useTestApp(() => ({ yaml: fileWith('2') }))
const customer = useCustomer(app)
let operator: BrowserClient
beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
})

const reload = () => operator.send('POST', 'operator/config/reload', { reason: 'new prices' })
const chargeOf = async () => {
  const body = { model: 'file-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  expect((await app.chat(customer, body)).status).toBe(200)
  const { rows } = await app.database.pool.query<{ cost: bigint }>(
    'SELECT cost_nanos AS cost FROM usage_event ORDER BY started_at DESC LIMIT 1',
  )
  return rows[0]!.cost
}

test('a file that changed is used at once, and the answer and the audit log say what changed', async () => {
  const before = await chargeOf()
  app.writeConfig(
    fileWith('2000', 'signup: { credit_usd: 1 }\nserver: { ping_seconds: 5 }').replace(
      'sk-first-secret',
      'sk-second-secret',
    ),
  )
  const response = await reload()
  expect(response.status).toBe(200)
  const answer = await response.json()
  expect(answer).toMatchObject({
    changes: [
      { path: 'signup.credit_usd', after: 1 },
      { path: 'endpoints.in-file.models[file-model].price_per_million_usd.output', before: 2, after: 2000 },
    ],
    keys_replaced: ['in-file'],
    needs_restart: ['server'],
  })
  expect(await chargeOf()).toBeGreaterThan(before * 10n)
  expect(upstream.requests.at(-1)!.headers.authorization).toBe('Bearer sk-second-secret')
  const { rows } = await app.database.pool.query("SELECT detail FROM audit_entry WHERE action = 'config.reloaded'")
  expect(rows).toEqual([{ detail: { ...(answer as object), reason: 'new prices' } }])
  expect(JSON.stringify(rows)).not.toContain('-secret')
  expect(await (await reload()).json()).toMatchObject({ changes: [], keys_replaced: [] })
})

test('a file that is wrong changes nothing, and the answer names each mistake and its line', async () => {
  const before = await chargeOf()
  app.writeConfig(fileWith('-1', 'server: { prot: 1 }'))
  const { code, message } = await readError(await reload())
  expect(code).toBe('invalid_value')
  expect(message).toMatch(/Nothing was changed.*:\d+: server\.prot is not a setting.*price_per_million_usd\.output/s)
  expect(await chargeOf()).toBe(before)
})
