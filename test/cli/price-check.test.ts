import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { useResource } from '../harness/use-resource.ts'
import { runCli } from './run-cli.ts'

/** As models.dev answered in November 2026, cut down to three models. */
const recorded = {
  openai: {
    id: 'openai',
    env: ['OPENAI_API_KEY'],
    npm: '@ai-sdk/openai',
    name: 'OpenAI',
    doc: 'https://platform.openai.com/docs/models',
    models: {
      'gpt-5.6-sol': {
        id: 'gpt-5.6-sol',
        name: 'GPT-5.6 Sol',
        attachment: true,
        reasoning: true,
        tool_call: true,
        modalities: { input: ['text', 'image'], output: ['text'] },
        open_weights: false,
        cost: {
          input: 4,
          output: 20,
          cache_read: 0.4,
          tiers: [{ input: 8, output: 30, cache_read: 0.8, tier: { type: 'context', size: 272_000 } }],
          context_over_200k: { input: 8, output: 30, cache_read: 0.8 },
        },
        limit: { context: 1_050_000, output: 128_000 },
      },
      'gpt-4o': { id: 'gpt-4o', name: 'GPT-4o', cost: { input: 2.5, output: 10, cache_read: 1.25, input_audio: 40 } },
    },
  },
  google: {
    id: 'google',
    models: {
      'gemini-3.1-pro-preview': {
        cost: { input: 2, output: 12, cache_read: 0.2, context_over_200k: { input: 4, output: 18, cache_read: 0.4 } },
      },
    },
  },
}

let answer: { status: number; body: string }
beforeEach(() => {
  answer = { status: 200, body: JSON.stringify(recorded) }
})
const list = useResource(
  async () => {
    const server = createServer((_request, response) => response.writeHead(answer.status).end(answer.body))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api.json` }
  },
  ({ server }) => new Promise<void>(resolve => server.close(() => resolve())),
)
const folder = useResource(
  async () => ({ path: await mkdtemp(join(tmpdir(), 'switchyard-price-')) }),
  ({ path }) => rm(path, { recursive: true }),
)

async function check(models: string, args: readonly string[] = ['--json']) {
  await writeFile(
    join(folder.path, 'switchyard.yaml'),
    `endpoints:\n  - { name: mine, kind: cloud, base_url: "https://api.openai.com/v1", models: [${models}] }\n`,
  )
  return runCli(['price', 'check', '--url', list.url, ...args], { cwd: folder.path, env: {} })
}
const model = (id: string, price: string) => `{ id: ${id}, price_per_million_usd: { ${price} } }`
const solSteps = 'steps: [{ above_input_tokens: 272000, input: 8, output: 30, cache_read: 0.8 }]'

test('prices as listed are reported, and the command succeeds', async () => {
  const run = await check(model('gpt-5.6-sol', `input: 4, output: 20, cache_read: 0.4, ${solSteps}`))
  expect(run).toMatchObject({ code: 0 })
  expect(JSON.parse(run.stdout)).toMatchObject([{ endpoint: 'mine', model: 'gpt-5.6-sol', result: 'same' }])
})

test('a model that is sold below its list price fails the command and is named, with the price of long prompts', async () => {
  const run = await check(
    `${model('gpt-5.6-sol', 'input: 4, output: 20, cache_read: 0.4')}, ${model('gpt-4o', 'input: 3, output: 10, cache_read: 1')}`,
  )
  expect(run.code).toBe(1)
  expect(run.stderr).toMatch(/Sold below the list price: gpt-5\.6-sol, gpt-4o\. Raise/)
  const rows = JSON.parse(run.stdout)
  expect(rows).toMatchObject([
    { tokens: 'input', above_input_tokens: 272_000, result: 'below_list', sold_at: '4.00', list_price: '8.00' },
    { tokens: 'output', above_input_tokens: 272_000, result: 'below_list', sold_at: '20.00', list_price: '30.00' },
    { tokens: 'cache_read', above_input_tokens: 272_000, result: 'below_list', sold_at: '0.40', list_price: '0.80' },
    { model: 'gpt-4o', tokens: 'input', above_input_tokens: 0, result: 'above_list' },
    { model: 'gpt-4o', tokens: 'cache_read', result: 'below_list', sold_at: '1.00', list_price: '1.25' },
  ])
  expect(rows).toHaveLength(5)
})

test('a step that is sold below its list price fails the command', async () => {
  const steps = 'steps: [{ above_input_tokens: 272000, input: 8, output: 30, cache_read: 0.4 }]'
  const run = await check(model('gpt-5.6-sol', `input: 4, output: 20, cache_read: 0.4, ${steps}`))
  expect(run.code).toBe(1)
  expect(JSON.parse(run.stdout)).toEqual([
    expect.objectContaining({
      ...{ result: 'below_list', tokens: 'cache_read', above_input_tokens: 272_000, window: null },
      ...{ sold_at: '0.40', list_price: '0.80' },
    }),
  ])
})

test('a window that is sold below the list price fails the command and is named, also where it overlaps another', async () => {
  const prices = (input: number) => `input: ${input}, output: 10, cache_read: 1.25`
  const weekdays = 'days: [mon, tue, wed, thu, fri]'
  const windows = [
    `{ ${weekdays}, hours: "00:00-06:00", ${prices(2)} }`,
    `{ days: [mon, sat], hours: "05:00-24:00", ${prices(1.5)} }`,
  ]
  const list = `${prices(2.5)}, windows: [${windows.join(', ')}]`
  const run = await check(model('gpt-4o', list))
  expect(run.code).toBe(1)
  const below = { tokens: 'input', above_input_tokens: 0, result: 'below_list', list_price: '2.50' }
  const rows = JSON.parse(run.stdout)
  expect(rows).toHaveLength(3)
  expect(rows).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ ...below, window: 'Mon-Fri 00:00-06:00', sold_at: '2.00' }),
      expect.objectContaining({ ...below, window: 'Mon, Sat 05:00-24:00', sold_at: '1.50' }),
      // Where both apply, the more expensive one counts.
      expect.objectContaining({
        ...{ ...below, window: 'Mon-Fri 00:00-06:00 and Mon, Sat 05:00-24:00', sold_at: '2.00' },
      }),
    ]),
  )
  const text = await check(model('gpt-4o', list), [])
  expect(text.stdout).toMatch(/BELOW LIST +input +0 +Mon, Sat 05:00-24:00 +1\.50 +2\.50/)
})

test('a window that is more expensive than the list fails nothing', async () => {
  const window = 'windows: [{ days: [mon], hours: "01:00-04:00", input: 5, output: 20, cache_read: 2.5 }]'
  const run = await check(model('gpt-4o', `input: 2.5, output: 10, cache_read: 1.25, ${window}`))
  expect(run).toMatchObject({ code: 0 })
  const rows = JSON.parse(run.stdout) as { result: string; window: string }[]
  expect(rows.map(({ result, window }) => [result, window])).toEqual(Array(3).fill(['above_list', 'Mon 01:00-04:00']))
})

test('audio is compared where the model takes it', async () => {
  const price = 'price_per_million_usd: { input: 2.5, output: 10, cache_read: 1.25, input_audio: 30 }'
  const run = (features: string) => check(`{ id: gpt-4o, features: [${features}], ${price} }`)
  expect(await run('tools')).toMatchObject({ code: 0 })
  const taking = await run('audio')
  expect(taking.code).toBe(1)
  expect(JSON.parse(taking.stdout)).toMatchObject([
    { tokens: 'input_audio', result: 'below_list', sold_at: '30.00', list_price: '40.00' },
  ])
})

test('a model that the list does not have is reported and fails nothing', async () => {
  const run = await check(model('my-finetune', 'input: 1, output: 2'), [])
  expect(run).toMatchObject({ code: 0 })
  expect(run.stdout).toContain('not listed')
})

test('the presets of a detected cloud are compared under its name in the list', async () => {
  await writeFile(join(folder.path, 'switchyard.yaml'), '')
  const env = { GEMINI_API_KEY: 'k' }
  const run = await runCli(['price', 'check', '--url', list.url, '--json'], { cwd: folder.path, env })
  expect(run).toMatchObject({ code: 0 })
  expect(JSON.parse(run.stdout)).toContainEqual(
    expect.objectContaining({ endpoint: 'gemini', model: 'gemini-3.1-pro-preview', result: 'same' }),
  )
})

test.each([
  ['status 503', { status: 503, body: 'busy' }, /cannot be read: it answered with status 503/],
  ['a page instead of the list', { status: 200, body: '<html>' }, /did not answer with a price list/],
  ['another JSON', { status: 200, body: '{"a":1}' }, /did not answer with a price list/],
])('%s is a clear error', async (_, given, message) => {
  answer = given
  const run = await check(model('gpt-4o', 'input: 3, output: 10'))
  expect(run.code).toBe(1)
  expect(run.stderr).toMatch(message)
})

test('a list that cannot be reached is a clear error', async () => {
  const args = ['price', 'check', '--url', 'http://127.0.0.1:1/api.json']
  const run = await runCli(args, { cwd: folder.path, env: {} })
  expect(run).toMatchObject({ code: 1 })
  expect(run.stderr).toMatch(
    /http:\/\/127\.0\.0\.1:1\/api\.json cannot be read: nothing answers at this address and port/,
  )
})
