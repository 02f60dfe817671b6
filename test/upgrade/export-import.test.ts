import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import { databaseUrl, runCli } from '../cli/run-cli.ts'
import { cloneDatabase, runOnServer } from '../harness/database.ts'
import { useResource } from '../harness/use-resource.ts'
import {
  Browser,
  chatStatus,
  MODEL_KEY,
  type ModelServer,
  type Program,
  runProgram,
  startModelServer,
  startProgram,
} from './fixture-gateway.ts'
import { type RestoredFixture, restoreFixture } from './restore-fixture.ts'

/** Each starts several processes, on a machine that may be busy. */
const PROCESSES_MS = 300_000

interface Earlier {
  readonly customers: Readonly<Record<string, { credits: { balance_usd: number } }>>
  readonly sums: { readonly accounts: unknown[]; readonly balances: { email: string; posted_nanos: string }[] }
  readonly commands: Readonly<Record<string, Record<string, unknown>[]>>
}

const models: ModelServer = useResource(startModelServer, server => server.close())
let earlier: RestoredFixture
/** This version on a new database. */
let program: Program
const target = `imported_${process.pid}`

beforeAll(async () => {
  earlier = await restoreFixture('2026-11-23', models)
  await cloneDatabase('template0', target)
  const env = { ...earlier.program.env, DATABASE_URL: databaseUrl({ ...earlier.connection, database: target }) }
  program = { ...earlier.program, env: { ...env, SWITCHYARD_DATA: join(earlier.directory, 'new') } }
})
afterAll(async () => {
  await earlier.drop()
  await runOnServer(`DROP DATABASE IF EXISTS ${target} WITH (FORCE)`)
})

const command = async (args: readonly string[]) => JSON.parse(await runProgram(program, [...args, '--json']))

test('a start refuses a database of 2026-11-23 and names the commands that bring its books into a new one', {
  timeout: PROCESSES_MS,
}, async () => {
  const { directory, env } = earlier.program
  const refused = await runCli(['start', '--port', '1'], { cwd: directory, env })
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toContain('Migration 0001_tables.sql was changed after it was applied')
  expect(refused.stderr).toMatch(/export books\.ndjson\.gz, then, .* import books\.ndjson\.gz/)
})

test('its books are imported once: every account, with the charges that only its journal has', {
  timeout: PROCESSES_MS,
}, async () => {
  const file = join(earlier.directory, 'books.ndjson.gz')
  const exported = JSON.parse(await runProgram(earlier.program, ['export', file, '--json']))
  expect(exported).toMatchObject({ file, customers: 5, unsettled: 5 })
  const again = await runCli(['export', file], { cwd: earlier.directory, env: earlier.program.env })
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('exists') })

  const wrongKey = { ...program.env, SWITCHYARD_MASTER_KEY: 'ab'.repeat(32) }
  const refused = await runCli(['import', file], { cwd: earlier.directory, env: wrongKey })
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('another master key') })

  expect(await command(['import', file])).toMatchObject({ imported: true, customers: 5, keys: 6, hosters: 1 })
  expect(await command(['import', file])).toMatchObject({ imported: false })
  const other = join(earlier.directory, 'other.ndjson.gz')
  await runProgram(earlier.program, ['export', other])
  const second = await runCli(['import', other], { cwd: earlier.directory, env: program.env })
  expect(second).toMatchObject({ code: 1, stderr: expect.stringContaining('has customers already') })

  // The new database needs no export.
  const needless = await runCli(['export', `${file}.2`], { cwd: earlier.directory, env: program.env })
  expect(needless).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('A start upgrades this database as it is'),
  })

  const before = earlier.expected.observed as unknown as Earlier
  expect(await command(['ledger', 'audit'])).toMatchObject({ ok: true })
  const listed: Record<string, unknown>[] = await command(['customer', 'list'])
  const kept = (customers: readonly Record<string, unknown>[]) =>
    customers.map(({ email, customer_id, account_tier, state, balance_usd, created_at }) => ({
      ...{ email, customer_id, account_tier, state, balance_usd, created_at: new Date(created_at as string) },
    }))
  expect(kept(listed)).toEqual(kept(before.commands['customer list']!))
  const [acme] = await command(['hoster', 'earnings'])
  const [acmeBefore] = before.commands['hoster earnings']!
  expect(acme).toMatchObject({ name: 'acme', all_time_usd: acmeBefore!.all_time_usd ?? acmeBefore!.net_usd })
})

test('keys, limits, hosters and the operator go on', { timeout: PROCESSES_MS }, async () => {
  const sql = createPool({ ...earlier.connection, database: target }, { max: 1, applicationName: target })
  await sql.query('UPDATE hoster_endpoint SET base_url = $1', [models.baseUrl])
  await sql.end()
  const gateway = await startProgram(program)
  try {
    const { keys, observed } = earlier.expected
    const before = observed as unknown as Earlier
    for (const [email, key] of Object.entries(keys)) {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const get = async (path: string) => (await fetch(`${gateway.url}/v1/${path}`, { headers })).json()
      const { balance_usd } = before.customers[email]!.credits
      expect(await get('credits')).toMatchObject({ balance_usd, granted_usd: balance_usd, spent_usd: 0 })
      const lines = (await get('credits/transactions')) as { data: object[] }
      expect(lines.data).toMatchObject([{ kind: 'opening_balance', amount_usd: balance_usd, balance_usd }])
    }
    // What a key had spent of a limit without resets is still spent.
    const listed: Record<string, unknown>[] = await command(['key', 'list'])
    const limited = (rows: readonly Record<string, unknown>[]) =>
      rows.find(({ email, state }) => email === 'limited@example.com' && state === 'active')!
    const spent = (limited(before.commands['key list']!).spend as { total_usd: string }).total_usd
    expect(Number(limited(listed).limit_usd)).toBeCloseTo(0.02 - Number(spent), 9)

    for (const [email, key] of Object.entries(keys)) {
      for (const model of ['tram', 'barge'])
        expect([email, model, await chatStatus(gateway.url, key, model)]).toEqual([email, model, 200])
    }
    // The key of the hoster's server is sealed with the master key.
    expect(models.authorizations).toContain(`Bearer ${MODEL_KEY}`)
    const { url } = await command(['operator', 'link'])
    const operator = new Browser(gateway.url)
    await operator.post('welcome', { token: url.split('#')[1], password: 'correct horse battery staple' })
  } finally {
    await gateway.stop()
  }
  expect(await command(['ledger', 'audit'])).toMatchObject({ ok: true })
  expect(existsSync(join(earlier.directory, 'new', 'master.key'))).toBe(false)
})
