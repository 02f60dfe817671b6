// docs/money.md, "Price groups".
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { commandLine } from '../../src/base/domain/acting.ts'
import { inputKinds, outputKinds, type PriceStep, type TokenPrice } from '../../src/base/domain/money.ts'
import { adjustedPrice, type PriceRules, parsePercent } from '../../src/base/domain/price-group.ts'
import { offerPrice } from '../../src/base/domain/price-list.ts'
import { changePriceGroup } from '../../src/money/accounts/change-price-group.ts'
import {
  listPriceGroupVersions,
  setCustomerPriceGroup,
  setTierPriceGroup,
  writePriceGroup,
} from '../../src/money/accounts/price-groups.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { sumPlatformDays } from '../../src/operator/platform-days.ts'
import type { OperatorUsage } from '../../src/wire/api/operator/usage.ts'
import type { TestCustomer } from '../harness/app.ts'
import { signedInOperator } from '../harness/browser-client.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { priceList, sellers } from './arbitrary-prices.ts'

test('a percentage has at most two decimals and never makes a price zero', () => {
  expect(['-10', '+2.5', '0', '-99.99', '1000'].map(parsePercent)).toEqual([-1_000, 250, 0, -9_999, 100_000])
  expect(['-100', '1000.01', '1e3', '2.555', '', '--1'].map(parsePercent)).toEqual(Array(6).fill(undefined))
})

test('each price is adjusted and rounded up, and what is held covers all of them', () => {
  fc.assert(
    fc.property(
      priceList,
      fc.constantFrom(...sellers),
      fc.integer({ min: -9_999, max: 100_000 }),
      (list, seller, bps) => {
        const price = offerPrice(list, seller, 0)
        const adjusted = adjustedPrice(price, bps)
        const expected = (pico: bigint) => {
          const exact = pico * BigInt(10_000 + bps)
          return exact / 10_000n + (exact % 10_000n > 0n ? 1n : 0n)
        }
        const compare = (before: TokenPrice, after: TokenPrice) => {
          expect(after.inputPicoPerToken).toBe(expected(before.inputPicoPerToken))
          expect(after.outputPicoPerToken).toBe(expected(before.outputPicoPerToken))
        }
        compare(price, adjusted)
        expect(adjusted.terms?.steps.length).toBe(price.terms?.steps.length)
        price.terms?.steps.forEach((before: PriceStep, index) => {
          const after = adjusted.terms!.steps[index]!
          compare(before.price, after.price)
          expect(after.perRequestPicos).toBe(expected(before.perRequestPicos))
          for (const kind of [...inputKinds, ...outputKinds])
            expect(after.parts[kind]).toBe(expected(before.parts[kind]))
          const { held, heldMediaPicos } = after
          for (const kind of ['cache_read', 'cache_write'] as const)
            expect(held.inputPicoPerToken >= after.parts[kind]).toBe(true)
          for (const kind of outputKinds) expect(held.outputPicoPerToken >= after.parts[kind]).toBe(true)
          for (const kind of ['input_audio', 'input_image'] as const)
            expect(held.inputPicoPerToken + heldMediaPicos >= after.parts[kind]).toBe(true)
        })
      },
    ),
  )
})

const upstream = useUpstream()
const app = useTestApp(() => ({
  yaml: `
hosters: { allow_private_urls: true }
endpoints:
  - name: cloud-1
    kind: cloud
    base_url: ${upstream.baseUrl}
    models:
      - { id: small, upstream_model: test-model, price_per_million_usd: { input: 1, output: 3, cache_read: 0.1 }, cost_per_million_usd: { input: 0.5, output: 2 } }
      - { id: large, upstream_model: test-model, price_per_million_usd: { input: 10, output: 30 } }
`,
}))
let partner: TestCustomer
beforeAll(async () => {
  partner = await app.customer({ creditNanos: 1_000_000_000_000n })
})

const write = (name: string, rules: PriceRules | null) =>
  transaction(app.database.pool, sql => writePriceGroup(sql, { name, rules, reason: 'agreed' }))
const assign = (customerId: string, name: string | null) =>
  transaction(app.database.pool, sql => setCustomerPriceGroup(sql, customerId, name))
const chat = (customer: TestCustomer, model: string, more: object = {}) =>
  app.chat(customer, { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20, ...more })
const newest = async ({ customerId }: TestCustomer) => {
  const { rows } = await app.database.pool.query(
    `SELECT request_id AS id, cost_nanos AS cost, hold_nanos AS hold, price_group AS name, price_group_version AS version, upstream_cost_nanos AS upstream
       FROM usage_event WHERE customer_id = $1 ORDER BY request_id DESC LIMIT 1`,
    [customerId],
  )
  return rows[0] as { id: string; cost: bigint; hold: bigint; name: string | null; version: number; upstream: bigint }
}

test('lists, quotes, holds, charges and receipts have the price of the customer; other customers keep theirs', async () => {
  const other = await app.customer()
  await write('partners', { percent: '-25', models: { large: { price_per_million_usd: { input: '4', output: '8' } } } })
  await assign(partner.customerId, 'partners')
  await app.app.noticeChanges()
  const pricing = async (customer: TestCustomer, model: string) => {
    const listed = (await (await app.get(customer, `/v1/models/${model}`)).json()) as { pricing: object }
    return listed.pricing
  }
  expect(await pricing(partner, 'small')).toMatchObject({
    ...{ input_usd_per_million: 0.75, output_usd_per_million: 2.25, cache_read_usd_per_million: 0.075 },
    prompt: '0.00000075',
  })
  expect(await pricing(partner, 'large')).toMatchObject({ input_usd_per_million: 4, output_usd_per_million: 8 })
  expect(await pricing(other, 'small')).toMatchObject({ input_usd_per_million: 1 })
  const quoted = await (await chat(partner, 'large', { dry_run: true })).json()
  const price = { group: { name: 'partners', version: 1 }, version: null, input_usd_per_million: 4 }
  expect(quoted).toMatchObject({ candidates: [{ price }] })

  upstream.respondWith(answer({ usage: usageOf(10, 5) }))
  for (const customer of [partner, other]) expect((await chat(customer, 'large')).status).toBe(200)
  expect(await newest(other)).toMatchObject({ cost: 250_000n, name: null, version: null })
  const row = await newest(partner)
  expect(row).toMatchObject({ cost: 80_000n, name: 'partners', version: 1 })
  const receipt = await (await app.get(partner, `/v1/usage/requests/${row.id}`)).json()
  expect(receipt).toMatchObject({ cost_usd: 0.00008, price, hold_usd: (quoted as { hold_usd: number }).hold_usd })
})

test('of two new groups of one name one is written', async () => {
  const order = (percent: string) => ({ name: 'twice', rules: { percent, models: {} }, reason: 'x', version: 0 })
  const waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
  const refused = await transaction(app.database.pool, async sql => {
    await changePriceGroup(sql, commandLine, order('-10'))
    const second = transaction(app.database.pool, other => changePriceGroup(other, commandLine, order('-90')))
    const result = second.catch((error: unknown) => error)
    await expect.poll(async () => (await app.database.pool.query(waiting)).rowCount).toBe(1)
    return { result }
  })
  expect(await refused.result).toMatchObject({ code: 'changed_meanwhile' })
  const [group] = await listPriceGroupVersions(app.database.pool, 'twice')
  expect(group).toMatchObject({ version: 1, rules: { percent: '-10' } })
})

test('a price limit counts at the price of the customer, and `auto` ranks by it', async () => {
  await write('cheap-large', {
    percent: '0',
    models: { large: { price_per_million_usd: { input: '0.2', output: '0.2' } } },
  })
  await assign(partner.customerId, 'cheap-large')
  await app.app.noticeChanges()
  const other = await app.customer()
  const limit = { max_input_usd_per_million: 0.5 }
  expect((await chat(partner, 'large', limit)).status).toBe(200)
  expect((await chat(other, 'large', limit)).status).toBe(500)
  for (const [customer, model] of [
    [partner, 'large'],
    [other, 'small'],
  ] as const) {
    const quoted = await (await chat(customer, 'auto', { dry_run: true, tier: 'cheapest' })).json()
    expect(quoted).toMatchObject({ candidates: [{ rank: 1, model }, {}] })
  }
})

test('a tier has a group too, and the own group of a customer counts before it', async () => {
  const [plain, own] = [await app.customer({ tier: 'scale' }), await app.customer({ tier: 'scale' })]
  await write('for-scale', { percent: '-50', models: {} })
  await write('own', { percent: '100', models: {} })
  await transaction(app.database.pool, sql => setTierPriceGroup(sql, 'scale', 'for-scale'))
  await assign(own.customerId, 'own')
  await app.app.noticeChanges()
  upstream.respondWith(answer({ usage: usageOf(10, 5) }))
  await Promise.all([chat(plain, 'small'), chat(own, 'small')])
  expect([await newest(plain), await newest(own)]).toMatchObject([
    { cost: 12_500n, name: 'for-scale' },
    { cost: 50_000n, name: 'own' },
  ])
  await transaction(app.database.pool, sql => setTierPriceGroup(sql, 'scale', null))
  await app.app.noticeChanges()
  await chat(plain, 'small')
  expect(await newest(plain)).toMatchObject({ cost: 25_000n, name: null })
})

test('a hoster sells at its own price to all customers, and gets its share of it', async () => {
  await app.hoster({
    baseUrl: upstream.baseUrl,
    models: [
      {
        modelId: 'hosted',
        upstreamModel: 'test-model',
        price: { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n },
      },
    ],
  })
  await write('half', { percent: '-50', models: { hosted: { price_per_million_usd: { input: '0', output: '0' } } } })
  await assign(partner.customerId, 'half')
  await app.app.noticeChanges()
  upstream.respondWith(answer({ usage: usageOf(10, 5) }))
  await chat(partner, 'hosted')
  expect(await newest(partner)).toMatchObject({ cost: 20_000n, name: null })
})

test('what the cloud costs is recorded with the request, so that a later cost changes nothing', async () => {
  const other = await app.customer()
  upstream.respondWith(answer({ usage: usageOf(10, 5) }))
  await chat(other, 'small')
  expect(await newest(other)).toMatchObject({ cost: 25_000n, upstream: 15_000n })
  await chat(other, 'large')
  expect(await newest(other)).toMatchObject({ cost: 250_000n, upstream: null })
  const sums = await app.database.pool.query(
    `SELECT model_id, sum(cost_nanos)::int AS cost, sum(upstream_cost_nanos)::int AS upstream, sum(costed_nanos)::int AS costed
       FROM usage_day WHERE customer_id = $1 GROUP BY 1 ORDER BY 1`,
    [other.customerId],
  )
  expect(sums.rows).toEqual([
    { model_id: 'large', cost: 250_000, upstream: 0, costed: 0 },
    { model_id: 'small', cost: 25_000, upstream: 15_000, costed: 25_000 },
  ])
})

test.each(['server', 'model', 'customer', 'provider'])(
  'the margin by %s adds up to what every request brought and cost, as far as its cost is known',
  async by => {
    await transaction(app.database.pool, sql => sumPlatformDays(sql, Date.now()))
    const { browser } = await signedInOperator(app)
    const { rows } = await app.database.pool.query<{ margin: number; unknown: number }>(
      `SELECT sum(fee_nanos - coalesce(upstream_cost_nanos, 0)) FILTER (WHERE NOT is_unknown)::float8 / 1e9 AS margin,
              sum(cost_nanos) FILTER (WHERE is_unknown)::float8 / 1e9 AS unknown
       FROM usage_event CROSS JOIN LATERAL (SELECT provider = 'cloud' AND upstream_cost_nanos IS NULL AS is_unknown) AS u`,
    )
    const report = (await (await browser.get(`operator/usage?by=${by}`)).json()) as OperatorUsage
    expect(report.total).toMatchObject({ margin_usd: rows[0]!.margin, unknown_cost_usd: rows[0]!.unknown })
    expect(report.groups.reduce((sum, { margin_usd: usd }) => sum + (usd ?? 0), 0)).toBeCloseTo(rows[0]!.margin, 9)
    const csv = await (await browser.get(`operator/usage/export?by=${by}`)).text()
    const [header = '', ...lines] = csv.trimEnd().split('\r\n')
    const column = header.split(',').indexOf('margin_usd')
    expect(lines.reduce((sum, line) => sum + Number(line.split(',')[column]), 0)).toBeCloseTo(rows[0]!.margin, 9)
  },
)

interface Round {
  readonly rules: PriceRules
  readonly assigned: boolean
  readonly requests: readonly {
    readonly model: 'small' | 'large'
    readonly input: number
    readonly output: number
    readonly stream: boolean
  }[]
}

const percent = fc.integer({ min: -9_999, max: 20_000 }).map(bps => String(bps / 100))
const usdText = fc
  .integer({ min: 0, max: 30_000_000 })
  .map(micros => String(micros / 1_000_000))
  .filter(text => !text.includes('e'))
const modelPrice = fc.oneof(
  fc.record({ percent }),
  fc.record({ price_per_million_usd: fc.record({ input: usdText, output: usdText }) }),
)
const round: fc.Arbitrary<Round> = fc.record({
  rules: fc.record({
    percent,
    models: fc.dictionary(fc.constantFrom('small', 'large', 'unknown'), modelPrice, { maxKeys: 2 }),
  }),
  assigned: fc.boolean(),
  requests: fc.array(
    fc.record({
      model: fc.constantFrom('small' as const, 'large' as const),
      input: fc.integer({ min: 1, max: 60 }),
      output: fc.integer({ min: 1, max: 20 }),
      stream: fc.boolean(),
    }),
    { minLength: 1, maxLength: 6 },
  ),
})

const listed = { small: [1_000_000n, 3_000_000n], large: [10_000_000n, 30_000_000n] } as const

/** The price that the rules of a version mean, in other words than the code. */
function priceOf(rules: PriceRules | undefined, model: 'small' | 'large'): readonly [bigint, bigint] {
  if (rules === undefined) return listed[model]
  const rule = rules.models[model] ?? { percent: rules.percent }
  const micros = (text: string) => BigInt(Math.round(Number(text) * 1_000_000))
  if ('price_per_million_usd' in rule)
    return [micros(rule.price_per_million_usd.input), micros(rule.price_per_million_usd.output)]
  const factor = BigInt(10_000 + Math.round(Number(rule.percent) * 100))
  return listed[model].map(pico => (pico * factor + 9_999n) / 10_000n) as [bigint, bigint]
}

test('whatever changes while requests run, each is charged by the version that its row names, and the ledger agrees', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(round, { minLength: 2, maxLength: 4 }), async rounds => {
      const customer = await app.customer({ creditNanos: 1_000_000_000_000n })
      const written = new Map<number, PriceRules>()
      const name = `g-${customer.customerId}`
      const running: Promise<number>[] = []
      upstream.respondWith((request, response) => {
        const { messages } = request.body as unknown as { messages: { content: string }[] }
        const [input = 1, output = 1] = messages[0]!.content.split(' ').map(Number)
        return answer({ usage: usageOf(input, output) })(request, response)
      })
      const send = async ({ model, stream, input, output }: Round['requests'][number]) => {
        const messages = [{ role: 'user', content: `${input} ${output}` }]
        const response = await chat(customer, model, { stream, messages })
        await response.text()
        return response.status
      }
      for (const { rules, assigned, requests } of rounds) {
        // Requests begin before, while and after the node notices the change.
        running.push(...requests.slice(0, 2).map(send))
        written.set(await write(name, rules), rules)
        await assign(customer.customerId, assigned ? name : null)
        const noticed = app.app.noticeChanges()
        running.push(...requests.slice(2, 4).map(send))
        await noticed
        running.push(...requests.slice(4).map(send))
      }
      expect(new Set(await Promise.all(running))).toEqual(new Set([200]))
      await app.settled(customer, running.length)
      const { rows } = await app.database.pool.query<ChargedRow>(
        `SELECT model_id AS model, input_tokens AS input, output_tokens AS output, input_pico_per_token AS "inputPico",
                output_pico_per_token AS "outputPico", cost_nanos AS cost, price_group AS "group", price_group_version AS version
           FROM usage_event WHERE customer_id = $1`,
        [customer.customerId],
      )
      expect(rows).toHaveLength(running.length)
      for (const { model, input, output, inputPico, outputPico, cost, group, version } of rows) {
        if (group !== null) expect([group, written.has(version)]).toEqual([name, true])
        const price = priceOf(group === null ? undefined : written.get(version), model)
        expect([inputPico, outputPico]).toEqual(price)
        expect(cost).toBe((BigInt(input) * price[0] + BigInt(output) * price[1] + 999n) / 1_000n)
      }
      const spent = rows.reduce((sum, { cost }) => sum + cost, 0n)
      expect(await app.balanceNanos(customer)).toBe(1_000_000_000_000n - spent)
      const violated = (await audit(app.database.pool)).filter(({ violations }) => violations > 0)
      expect(violated).toEqual([])
    }),
    { numRuns: 8 },
  )
})

interface ChargedRow {
  readonly model: 'small' | 'large'
  readonly input: number
  readonly output: number
  readonly inputPico: bigint
  readonly outputPico: bigint
  readonly cost: bigint
  readonly group: string | null
  readonly version: number
}
