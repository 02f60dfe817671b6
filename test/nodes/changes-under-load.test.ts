import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { databaseUrl, runCli } from '../cli/run-cli.ts'
import { status } from '../harness/scripted-upstream.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'
import { eventually, type GatewayProcess, startGatewayProcess } from './gateway-process.ts'

// Three nodes that share only the database, under load. An operator changes prices, providers, settings and models at one of
// them, as a program does. The documentation promises that all nodes follow within 2 s; the test allows more, for a busy machine.

const upstream = useUpstream()
const database = useTestDatabase()
let directory: string
let env: Record<string, string>
let nodes: GatewayProcess[] = []
let operatorKey: string
let key: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'switchyard-changes-'))
  const yaml = 'demo: { enabled: false }\ndetect: { enabled: false }\nsignup: { tier: scale, credit_usd: 100 }\n'
  await writeFile(join(directory, 'switchyard.yaml'), yaml)
  env = { DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_MASTER_KEY: '5'.repeat(64) }
  nodes = await Promise.all(
    [1, 2, 3].map(node => startGatewayProcess({ directory, env: { ...env, SWITCHYARD_DATA: `data-${node}` } })),
  )
  const scopes = ['--scope', 'read,supply,settings']
  operatorKey = String((await switchyard('operator', 'key', 'add', 'you@localhost', '--name', 'test', ...scopes)).key)
  key = String((await switchyard('key', 'issue', 'you@localhost', '--name', 'load')).key)
})
afterAll(async () => {
  for (const node of nodes) expect(await node.stop()).toBe(0)
  await rm(directory, { recursive: true })
})

/** Runs one command and returns its JSON. */
async function switchyard(...args: string[]): Promise<Record<string, unknown>> {
  const run = await runCli([...args, '--json'], { cwd: directory, env })
  expect(run.code, run.stderr).toBe(0)
  return JSON.parse(run.stdout)
}

/** Sends a change to the first node. */
async function admin<T = { version: number }>(method: string, path: string, body: object): Promise<T> {
  const response = await fetch(`${nodes[0]!.url}/v1/admin/${path}`, {
    method,
    headers: { authorization: `Bearer ${operatorKey}`, 'content-type': 'application/json' },
    ...(method !== 'GET' && { body: JSON.stringify({ reason: 'test', ...body }) }),
  })
  const text = await response.text()
  expect(response.status, text).toBe(200)
  return JSON.parse(text) as T
}

const ask = async (node: GatewayProcess, path: string) => {
  const response = await fetch(`${node.url}${path}`, { headers: { authorization: `Bearer ${key}` } })
  return response.status === 200 ? ((await response.json()) as Record<string, never>) : undefined
}
const chat = (node: GatewayProcess, model = 'shared') =>
  fetch(`${node.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] }),
  })

/** Asks every node without a pause, until it is told to stop. Returns all statuses. */
function startLoad() {
  let isOver = false
  const statuses: number[] = []
  const workers = nodes.flatMap(node =>
    [1, 2].map(async () => {
      while (!isOver) {
        const response = await chat(node)
        await response.arrayBuffer()
        statuses.push(response.status)
      }
    }),
  )
  return {
    statuses,
    async stop() {
      isOver = true
      await Promise.all(workers)
      return statuses
    },
  }
}

const settingsOf = (name: string, input: number, rules: readonly object[] = []) => ({
  ...{ name, kind: 'local', base_url: upstream.baseUrl, model_rules: rules },
  models: [{ id: 'shared', upstream_model: 'test-model', price_per_million_usd: { input, output: 2 * input } }],
})

test('three nodes follow a price, a provider, a setting and a model rule under load, in order and without a failed request', async () => {
  await admin('POST', 'providers', { settings: settingsOf('spare', 9) })
  let { version } = await admin('POST', 'providers', { settings: settingsOf('main', 1) })
  // The cheapest server decides the price that a node shows.
  const priceAt = async (node: GatewayProcess) => {
    const model = (await ask(node, '/v1/models/shared')) as { pricing?: { input_usd_per_million: number } } | undefined
    return model?.pricing?.input_usd_per_million
  }
  const perDayAt = async (node: GatewayProcess) =>
    ((await ask(node, '/v1/key')) as { rate_limits?: { limit_per_day: number } } | undefined)?.rate_limits
      ?.limit_per_day
  const perMinuteAt = async (node: GatewayProcess) =>
    ((await ask(node, '/v1/key')) as { rate_limits?: { limit_per_minute: number } } | undefined)?.rate_limits
      ?.limit_per_minute
  const knowsNew = async (node: GatewayProcess) => (await ask(node, '/v1/models/gpt-4o')) !== undefined
  /** What each node has shown, without repetitions: a node must never go back. */
  const seen: unknown[][][] = []
  const everywhere = async <T>(read: (node: GatewayProcess) => Promise<T>, wanted: T) => {
    const shown = nodes.map((): unknown[] => [])
    seen.push(shown)
    await Promise.all(
      nodes.map((node, index) =>
        eventually(async () => {
          const value = await read(node)
          if (shown[index]!.at(-1) !== value) shown[index]!.push(value)
          return value === wanted ? true : undefined
        }),
      ),
    )
  }
  const price = (input: number, rules: readonly object[] = []) =>
    admin('PUT', 'providers/main', { version, settings: settingsOf('main', input, rules) }).then(written => {
      version = written.version
    })
  const set = async (name: string, value: number) => {
    const { version: settings } = await admin('GET', 'settings', {})
    await admin('PATCH', 'settings', { version: settings, changes: { [`account_tiers.scale.${name}`]: value } })
  }
  await everywhere(priceAt, 1)
  // The load must not reach the limits of the customer.
  await set('requests_per_minute', 1_000_000)
  await everywhere(perMinuteAt, 1_000_000)
  const load = startLoad()

  await price(3)
  await everywhere(priceAt, 3)
  await price(2)
  await everywhere(priceAt, 2)
  ;({ version } = await admin('PATCH', 'providers/main', { is_enabled: false }))
  await everywhere(priceAt, 9)
  ;({ version } = await admin('PATCH', 'providers/main', { is_enabled: true }))
  await everywhere(priceAt, 2)
  await set('requests_per_day', 999_999)
  await everywhere(perDayAt, 999_999)
  await price(2, [{ match: 'gpt-4*', price_list: 'openai', action: 'apply' }])
  upstream.respondToProbesWith(status(200, { data: [{ id: 'test-model' }, { id: 'gpt-4o' }] }))
  await admin('POST', 'providers/main/refresh', { reason: undefined })
  await everywhere(knowsNew, true)
  for (const node of nodes) expect((await chat(node, 'gpt-4o')).status).toBe(200)

  // Each node went from the value before to the new one, and never back.
  for (const shown of seen)
    for (const values of shown) expect(new Set(values).size, JSON.stringify(seen)).toBe(values.length)
  const statuses = await load.stop()
  expect(new Set(statuses)).toEqual(new Set([200]))

  // Every request was priced by one version, and the requests after the last change by the last one.
  const { rows } = await eventually(async () => {
    const found = await database.pool.query<{ version: number; input: bigint; written: string | null }>(
      `SELECT u.price_version AS version, u.input_pico_per_token AS input,
              v.settings #>> '{models,0,price_per_million_usd,input}' AS written
         FROM usage_event u LEFT JOIN provider_version v ON v.name = u.endpoint_id AND v.version = u.price_version
        WHERE u.model_id = 'shared'`,
    )
    return found.rows.length < statuses.length ? undefined : found
  })
  expect(rows).toHaveLength(statuses.length)
  for (const { input, written } of rows) expect(input).toBe(BigInt(written!) * 1_000_000n)
})
