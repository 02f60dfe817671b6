import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { transaction } from '../../src/base/db/pool.ts'
import { commandLine } from '../../src/base/domain/acting.ts'
import { ApiError } from '../../src/base/domain/errors.ts'
import { assignToTier, changePriceGroup } from '../../src/money/accounts/change-price-group.ts'
import { listPriceGroups } from '../../src/money/accounts/price-groups.ts'
import { rounds } from '../harness/rounds.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { databaseUrl, runInProcess } from './run-cli.ts'

const database = useTestDatabase()
const directory = mkdtempSync(join(tmpdir(), 'switchyard-cli-config-'))
afterAll(() => rmSync(directory, { recursive: true }))

const run = (...args: string[]) =>
  runInProcess(args, {
    cwd: directory,
    env: {
      DATABASE_URL: databaseUrl(database.connection),
      SWITCHYARD_DATA: directory,
      SWITCHYARD_MASTER_KEY: 'ab'.repeat(32),
    },
  })
const write = (yaml: string) => writeFileSync(join(directory, 'providers.yaml'), yaml)
const apply = async (...args: string[]) => {
  const { code, stdout, stderr } = await run('config', 'apply', 'providers.yaml', '--json', ...args)
  if (code !== 0) throw new Error(stderr)
  return (
    JSON.parse(stdout) as { providers: { name: string; change: string; version: number; differences: unknown[] }[] }
  ).providers
}
const changes = async (...args: string[]) => (await apply(...args)).map(({ name, change }) => [name, change])

const acme = (price: string, key = '') => `  - name: acme
    kind: cloud
    base_url: https://api.example.com/v1
    ${key}
    models:
      - { id: acme-7b, price_per_million_usd: { input: 0.10, output: ${price} }, context_tokens: 8192 }
`
const other = `  - { name: other, kind: local, base_url: "http://127.0.0.1:9/v1", models: [{ id: "$\${x}", price_per_million_usd: { input: 0, output: 0 } }] }
`

test('a file is applied as versions, with its differences; what is exported and applied again changes nothing', async () => {
  write(`endpoints:\n${acme('0.40', 'api_key: sk-acme-1')}${other}`)
  expect(await changes('--dry-run')).toEqual([
    ['acme', 'created'],
    ['other', 'created'],
  ])
  expect((await run('config', 'export')).stdout.trim()).toBe('endpoints: []')
  expect(await changes()).toEqual([
    ['acme', 'created'],
    ['other', 'created'],
  ])
  expect(await changes()).toEqual([
    ['acme', 'unchanged'],
    ['other', 'unchanged'],
  ])

  const exported = (await run('config', 'export')).stdout
  expect(exported).toContain('# api_key: stored')
  expect(exported).not.toContain('sk-acme')
  expect(parse(exported)).toMatchObject({ endpoints: [{ name: 'acme' }, { name: 'other' }] })
  write(exported)
  expect(await changes()).toEqual([
    ['acme', 'unchanged'],
    ['other', 'unchanged'],
  ])

  write(`endpoints:\n${acme('0.50')}`)
  expect(await apply()).toMatchObject([
    {
      ...{ name: 'acme', change: 'changed', version: 2 },
      differences: [{ path: 'models[acme-7b].price_per_million_usd.output', after: '0.50' }],
    },
  ])
  expect(await changes('--prune', '--reason', 'Only acme')).toEqual([
    ['acme', 'unchanged'],
    ['other', 'removed'],
  ])
  const { rows } = await database.pool.query(
    "SELECT action, subject, person_id, detail->>'reason' AS reason FROM audit_entry WHERE action LIKE 'provider.%' ORDER BY entry_id",
  )
  expect(rows).toEqual([
    { action: 'provider.created', subject: 'acme', person_id: null, reason: 'Applied from a file.' },
    { action: 'provider.created', subject: 'other', person_id: null, reason: 'Applied from a file.' },
    { action: 'provider.changed', subject: 'acme', person_id: null, reason: 'Applied from a file.' },
    { action: 'provider.removed', subject: 'other', person_id: null, reason: 'Only acme' },
  ])
  expect((await run('model', 'list')).stdout).toMatch(/acme-7b\s+cloud\s+acme/)
})

test.each([
  [acme('-1'), /providers.yaml:\d+: endpoints\[0\]/],
  [`${acme('1')}${acme('1')}`, /repeats "acme"/],
  [acme('1').replace('api.example.com', 'elsewhere.example.com'), /stored key is not sent there/],
])('a file that is wrong changes nothing and says where', async (yaml, text) => {
  const before = (await run('config', 'export')).stdout
  write(`endpoints:\n${yaml}`)
  const { code, stderr } = await run('config', 'apply', 'providers.yaml')
  expect(code).toBe(1)
  expect(stderr).toMatch(text)
  expect((await run('config', 'export')).stdout).toBe(before)
})

test('settings are exported and applied with the providers, and a round trip changes nothing', async () => {
  const result = async (yaml: string, ...args: string[]) => {
    write(yaml)
    const { code, stdout, stderr } = await run('config', 'apply', 'providers.yaml', '--json', ...args)
    if (code !== 0) throw new Error(stderr)
    return { ...JSON.parse(stdout), stderr } as {
      settings: { change: string; version: number; differences: { path: string }[] }
      stderr: string
    }
  }
  const tiers = 'account_tiers: { gold: { requests_per_minute: 5, requests_per_day: 6, daily_spend_cap_usd: 7.00 } }'
  const yaml = `signup: { credit_usd: 1.50, tier: gold }\n${tiers}\nserver: { port: 9000 }\n`
  expect((await result(yaml, '--dry-run')).settings).toMatchObject({ change: 'changed', version: 1 })
  const first = await result(yaml, '--reason', 'moved')
  expect(first.settings.differences.map(({ path }) => path)).toEqual([
    ...['signup.credit_usd', 'signup.tier', 'account_tiers.gold.requests_per_minute'],
    ...['account_tiers.gold.requests_per_day', 'account_tiers.gold.daily_spend_cap_usd'],
  ])
  expect(first.stderr).toContain('only switchyard.yaml sets it: server.port')
  expect((await result(yaml)).settings).toMatchObject({ change: 'unchanged', version: 1 })
  const exported = (await run('config', 'export')).stdout
  expect(parse(exported)).toMatchObject({ signup: { credit_usd: '1.50', tier: 'gold' } })
  expect((await result(exported, '--prune')).settings).toMatchObject({ change: 'unchanged', version: 1 })
  // Commands use what is managed.
  const added = JSON.parse((await run('customer', 'add', 'ada@example.com', '--json')).stdout) as object
  expect(added).toMatchObject({ account_tier: 'gold', balance_usd: '1.50' })
  expect((await run('customer', 'tier', 'ada@example.com', 'gold')).code).toBe(0)
  await expect(result('signup: { tier: platinum }')).rejects.toThrow('is not an account tier')
  expect((await result('limits: { wait_for_credit_ms: 1 }', '--prune')).settings).toMatchObject({ version: 2 })
  expect(parse((await run('config', 'export')).stdout)).toEqual({ limits: { wait_for_credit_ms: 1 }, endpoints: [] })
  const { rows } = await database.pool.query(
    "SELECT detail->>'reason' AS reason FROM audit_entry WHERE action = 'settings.changed' ORDER BY entry_id",
  )
  expect(rows).toEqual([{ reason: 'moved' }, { reason: 'Applied from a file.' }])
})

/** No variable of the environment is read for it. */
const VARIABLE = ['$', '{HOME}'].join('')
const tierNames = ['free', 'standard', 'scale'] as const
const rule = fc.oneof(
  fc.record({ percent: fc.integer({ min: -99, max: 300 }).map(String) }),
  fc.record({
    price_per_million_usd: fc.record({
      input: fc.integer({ min: 0, max: 900 }).map(cents => (cents / 100).toFixed(2)),
      output: fc.integer({ min: 0, max: 900 }).map(cents => (cents / 100).toFixed(2)),
    }),
  }),
)
const name = fc.constantFrom('partners', 'friends', 'schools')
const priceChange = fc.oneof(
  fc.record({
    kind: fc.constant('write' as const),
    ...{ name, percent: fc.integer({ min: -9_999, max: 9_999 }).map(bps => (bps / 100).toFixed(2)) },
    models: fc.dictionary(fc.constantFrom('acme-7b', 'a/b:c', VARIABLE), rule, { maxKeys: 3 }),
  }),
  fc.record({ kind: fc.constant('remove' as const), name }),
  fc.record({
    kind: fc.constant('tier' as const),
    tier: fc.constantFrom(...tierNames),
    name: fc.option(name),
  }),
)
type PriceChange = typeof priceChange extends fc.Arbitrary<infer Change> ? Change : never

/** Makes changes as operators do. Those that are refused change nothing. */
async function change(history: readonly PriceChange[]): Promise<void> {
  for (const each of history) {
    await transaction(database.pool, async sql => {
      const order = { name: each.name!, reason: 'random', version: undefined }
      if (each.kind === 'write') {
        await changePriceGroup(sql, commandLine, { ...order, rules: { percent: each.percent, models: each.models } })
      } else if (each.kind === 'remove') await changePriceGroup(sql, commandLine, { ...order, rules: null })
      else await assignToTier(sql, commandLine, { tier: each.tier, name: each.name, reason: 'random' })
    }).catch((error: unknown) => expect(error).toBeInstanceOf(ApiError))
  }
}

const state = async () =>
  (await listPriceGroups(database.pool)).map(group => ({ name: group.name, rules: group.rules, tiers: group.tiers }))

test('whatever price groups there are, the export, the file and the database agree after it is applied', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(priceChange, { minLength: 1, maxLength: 12 }),
      fc.array(priceChange, { maxLength: 12 }),
      async (history, later) => {
        await change(history)
        const before = await state()
        const exported = (await run('config', 'export')).stdout
        const written = (parse(exported) as { price_groups?: unknown }).price_groups ?? []
        expect(written).toEqual(before.map(({ name, rules, tiers }) => ({ name, ...rules, tiers })))
        // Without a group, the file says nothing about them.
        write(before.length === 0 ? `${exported}price_groups: []\n` : exported)
        const apply = async () => {
          const { code, stdout, stderr } = await run('config', 'apply', 'providers.yaml', '--prune', '--json')
          expect(code, stderr).toBe(0)
          const { price_groups: groups } = JSON.parse(stdout) as { price_groups: { name: string; change: string }[] }
          return groups.map(({ change }) => change)
        }
        expect(await apply()).toEqual(before.map(() => 'unchanged'))
        await change(later)
        await apply()
        expect(await state()).toEqual(before)
        expect((await run('config', 'export')).stdout).toBe(exported)
      },
    ),
    { numRuns: rounds(15) },
  )
})

test('a file with a wrong price group, an unknown tier or none at all leaves the price groups', async () => {
  await change([
    ...tierNames.map(tier => ({ kind: 'tier' as const, tier, name: null })),
    ...(['friends', 'schools'] as const).map(each => ({ kind: 'remove' as const, name: each })),
    { kind: 'write', name: 'partners', percent: '-10', models: {} },
  ])
  const before = await state()
  for (const [yaml, text] of [
    ['price_groups: [{ name: partners, percent: -100 }]', /price_groups\[0\].percent must be a percentage/],
    ['price_groups: [{ name: partners, tiers: [gold] }]', /there is no account tier "gold"/],
    ['price_groups: [{ name: a, tiers: [free] }, { name: b, tiers: [free] }]', /"free" has two groups/],
    ['price_groups: [{ name: a }, { name: a }]', /each name once/],
  ] as const) {
    write(yaml)
    const { code, stderr } = await run('config', 'apply', 'providers.yaml')
    expect([code, stderr]).toEqual([1, expect.stringMatching(text)])
  }
  write('endpoints: []')
  expect((await run('config', 'apply', 'providers.yaml', '--prune')).code).toBe(0)
  expect(await state()).toEqual(before)
  // Numbers are their text, and what a file does not name stays without --prune.
  write('price_groups: [{ name: friends, percent: 2.50, models: { m: { percent: -5 } }, tiers: [scale, free] }]')
  expect((await run('config', 'apply', 'providers.yaml')).code).toBe(0)
  expect(await state()).toEqual([
    { name: 'friends', rules: { percent: '2.50', models: { m: { percent: '-5' } } }, tiers: ['free', 'scale'] },
    ...before,
  ])
})
