import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { costNanos } from '../../src/base/domain/money.ts'
import { startTestApp, type TestApp, type TestCustomer } from '../harness/app.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { rounds } from '../harness/rounds.ts'
import { useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
let nodes: readonly TestApp[] = []
let customer: TestCustomer
let operator: BrowserClient
beforeAll(async () => {
  const masterKey = Buffer.alloc(32, 4)
  const first = await startTestApp({ masterKey })
  nodes = [first, await startTestApp({ masterKey, database: first.database })]
  customer = await first.customer({ creditNanos: 1_000_000_000_000n })
  operator = (await signedInOperator(first)).browser
})
afterAll(async () => {
  for (const node of nodes.toReversed()) await node.close()
})

type Step =
  | { readonly kind: 'price'; readonly input: number }
  | { readonly kind: 'switch'; readonly isEnabled: boolean }
  | { readonly kind: 'tier'; readonly perDay: number }
  | { readonly kind: 'ask'; readonly node: number; readonly times: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('price' as const), input: fc.integer({ min: 1, max: 1_000 }) }),
  fc.record({ kind: fc.constant('switch' as const), isEnabled: fc.boolean() }),
  fc.record({ kind: fc.constant('tier' as const), perDay: fc.integer({ min: 40_000, max: 50_000 }) }),
  fc.record({ kind: fc.constant('ask' as const), node: fc.nat(1), times: fc.integer({ min: 1, max: 4 }) }),
)

let names = 0
const settingsOf = (name: string, input: number, isEnabled = true) => ({
  ...{ name, kind: 'local', base_url: upstream.baseUrl, enabled: isEnabled },
  models: [{ id: `${name}-m`, upstream_model: 'test-model', price_per_million_usd: { input, output: 2 * input } }],
})

test('whatever changes beside requests, each was priced by the one version that its row names', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async steps => {
      const name = `random-${++names}`
      const before = await nodes[0]!.usage(customer)
      const send = async (method: string, path: string, body: object) => {
        const response = await operator.send(method, `operator/${path}`, { ...body, reason: 'random' })
        if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
        return (await response.json()) as { version: number }
      }
      let { version } = await send('POST', 'providers', { settings: settingsOf(name, 1) })
      const asked: Promise<Response>[] = []
      for (const each of steps) {
        if (each.kind === 'price') {
          const settings = settingsOf(name, each.input)
          ;({ version } = await send('PUT', `providers/${name}`, { version, settings }))
        } else if (each.kind === 'switch') {
          ;({ version } = await send('PATCH', `providers/${name}`, { is_enabled: each.isEnabled }))
        } else if (each.kind === 'tier') {
          const { version: settings } = (await (await operator.get('operator/settings')).json()) as { version: number }
          const changes = { 'account_tiers.standard.requests_per_day': each.perDay }
          await send('PATCH', 'settings', { version: settings, changes })
        } else {
          const body = { model: `${name}-m`, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
          for (let n = 0; n < each.times; n++) asked.push(nodes[each.node]!.chat(customer, body))
        }
      }
      const statuses = (await Promise.all(asked)).map(({ status }) => status)
      // A node that has not read the provider yet, or has read that it is disabled, does not know its model.
      expect(statuses.filter(status => status !== 200 && status !== 404)).toEqual([])
      const served = statuses.filter(status => status === 200).length
      await nodes[0]!.settled(customer, before.length + served)
      const { rows } = await nodes[0]!.database.pool.query<{
        input_tokens: number
        output_tokens: number
        cost_nanos: bigint
        input_pico_per_token: bigint
        settings: { models: { price_per_million_usd: { input: number } }[]; enabled: boolean } | null
      }>(
        `SELECT u.input_tokens, u.output_tokens, u.cost_nanos, u.input_pico_per_token, v.settings
           FROM usage_event u LEFT JOIN provider_version v ON v.name = u.endpoint_id AND v.version = u.price_version
          WHERE u.endpoint_id = $1`,
        [name],
      )
      expect(rows).toHaveLength(served)
      for (const row of rows) {
        expect(row.settings).not.toBeNull()
        expect(row.settings!.enabled).not.toBe(false)
        const input = BigInt(row.settings!.models[0]!.price_per_million_usd.input) * 1_000_000n
        expect(row.input_pico_per_token).toBe(input)
        const price = { inputPicoPerToken: input, outputPicoPerToken: 2n * input }
        expect(row.cost_nanos).toBe(costNanos(price, row.input_tokens, row.output_tokens))
      }
    }),
    { numRuns: rounds(12) },
  )
})
