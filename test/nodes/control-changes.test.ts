import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { databaseUrl, runCli } from '../cli/run-cli.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'
import { eventually, type GatewayProcess, startGatewayProcess } from './gateway-process.ts'

// Two nodes that share only the database. The command line, a third process, makes each change. The
// documentation promises that a change takes effect on both nodes within 2 s; the tests allow more, for a busy
// machine.

const upstream = useUpstream()
const database = useTestDatabase()
let directory: string
let env: Record<string, string>
let nodes: GatewayProcess[] = []

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'switchyard-control-'))
  await writeFile(
    join(directory, 'switchyard.yaml'),
    `
demo: { enabled: false }
detect: { enabled: false }
hosters: { allow_private_urls: true }
signup: { tier: standard }
`,
  )
  env = {
    DATABASE_URL: databaseUrl(database.connection),
    SWITCHYARD_MASTER_KEY: '5'.repeat(64),
  }
  nodes = await Promise.all(
    [1, 2].map(node => startGatewayProcess({ directory, env: { ...env, SWITCHYARD_DATA: `data-${node}` } })),
  )
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

async function issueKey(): Promise<{ id: string; key: string }> {
  const { key_id, key } = await switchyard('key', 'issue', 'you@localhost', '--name', 'test')
  return { id: String(key_id), key: String(key) }
}

function ask(node: GatewayProcess, key: string, path: string): Promise<Response> {
  return fetch(`${node.url}${path}`, { headers: { authorization: `Bearer ${key}` } })
}

function chat(node: GatewayProcess, key: string): Promise<Response> {
  return fetch(`${node.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'rented', max_tokens: 20, messages: [{ role: 'user', content: 'Hello' }] }),
  })
}

/** Waits until `check` is true for every node. */
async function onEveryNode(check: (node: GatewayProcess) => Promise<boolean>): Promise<void> {
  await Promise.all(nodes.map(node => eventually(async () => ((await check(node)) ? true : undefined))))
}

test('nodes that have just accepted a key refuse it after it is revoked', async () => {
  const { id, key } = await issueKey()
  await onEveryNode(async node => (await ask(node, key, '/v1/models')).status === 200)
  await switchyard('key', 'revoke', id)
  await onEveryNode(async node => (await ask(node, key, '/v1/models')).status === 401)
})

test('every node follows when a hoster is added, gets new prices and is suspended', async () => {
  const { key } = await issueKey()
  const limits = ['--context-tokens', '32768', '--max-output-tokens', '4096']
  await switchyard('hoster', 'add', 'acme', upstream.baseUrl)
  await switchyard('hoster', 'price', 'acme', 'rented', '--input', '1', '--output', '2', ...limits)
  for (const node of nodes) expect((await ask(node, key, '/v1/models/rented')).status).toBe(404)
  await switchyard('hoster', 'activate', 'acme')
  await onEveryNode(async node => (await ask(node, key, '/v1/models/rented')).status === 200)
  for (const node of nodes) expect((await chat(node, key)).status).toBe(200)

  const priceAt = async (node: GatewayProcess) => {
    const { pricing } = (await (await ask(node, key, '/v1/models/rented')).json()) as {
      pricing?: { input_usd_per_million: number }
    }
    return pricing?.input_usd_per_million
  }
  await onEveryNode(async node => (await priceAt(node)) === 1)
  await switchyard('hoster', 'price', 'acme', 'rented', '--input', '3', '--output', '4')
  await onEveryNode(async node => (await priceAt(node)) === 3)
  // Ten tokens in and five out at the new price.
  const atOldPrice = await settledCosts(nodes.length)
  expect(new Set(atOldPrice)).toEqual(new Set([20_000n]))
  for (const node of nodes) expect((await chat(node, key)).status).toBe(200)
  expect((await settledCosts(2 * nodes.length)).slice(nodes.length)).toEqual(nodes.map(() => 50_000n))

  await switchyard('hoster', 'suspend', 'acme')
  await onEveryNode(async node => (await chat(node, key)).status === 404)
})

/** The costs of all requests in order, once `count` are settled. */
function settledCosts(count: number): Promise<bigint[]> {
  return eventually(async () => {
    const { rows } = await database.pool.query<{ cost_nanos: bigint }>(
      'SELECT cost_nanos FROM usage_event ORDER BY request_id',
    )
    return rows.length < count ? undefined : rows.map(row => row.cost_nanos)
  })
}
