import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { checkContexts } from '../../src/cli/doctor/check-contexts.ts'
import { detectLocal } from '../../src/market/supply/detection/detect-local.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import { gatherOffers } from '../../src/start/gather-offers.ts'
import { useResource } from '../harness/use-resource.ts'

let server: Server
afterEach(async () => {
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
})

/** Answers by method and path, `POST /api/show` by the model in the body. Everything else is 404. */
type Answers = Record<string, unknown>

/** Starts a model server. Returns its port and the paths that it was asked for. */
async function modelServer(answers: Answers): Promise<{ port: number; asked: string[] }> {
  const asked: string[] = []
  server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    const model = body === '' ? '' : ` ${JSON.parse(body).model}`
    asked.push(`${request.method} ${request.url}${model}`)
    const answer = answers[asked.at(-1)!]
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer ?? {}))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return { port: (server.address() as AddressInfo).port, asked }
}

const price = { inputPicoPerToken: 1n, outputPicoPerToken: 2n }

/** Detects a server. Returns the contexts of its models, the note for the operator and the paths asked for. */
async function detected(answers: Answers) {
  const { port, asked } = await modelServer(answers)
  const [found] = await detectLocal({ price, ownPorts: [], timeoutMs: 10_000, servers: [{ name: 'found', port }] })
  const contexts = Object.fromEntries(found!.offers.map(offer => [offer.modelId, offer.contextTokens]))
  expect(found!.offers.map(offer => offer.maxOutputTokens)).toEqual(Object.values(contexts))
  return { contexts, note: found!.finding.note, asked }
}

const list = (...ids: string[]) => ({ object: 'list', data: ids.map(id => ({ id })) })

test('Ollama: a loaded model has the context it runs with, others what /api/show says', async () => {
  const show = (trained: number, parameters?: string) => ({
    model_info: { 'general.architecture': 'x', 'x.context_length': trained, 'x.block_count': 9 },
    ...(parameters !== undefined && { parameters }),
  })
  const { contexts, note, asked } = await detected({
    'GET /v1/models': list('loaded', 'set', 'set-too-high', 'small', 'unknown', 'missing', 'gpt-oss:120b-cloud'),
    'GET /api/ps': { models: [{ name: 'loaded', model: 'loaded', context_length: 65_536 }] },
    'POST /api/show set': show(262_144, 'stop "</s>"\nnum_ctx                        131072\n'),
    'POST /api/show set-too-high': show(40_960, 'num_ctx 131072'),
    'POST /api/show small': show(8_192),
    'POST /api/show unknown': show(262_144),
  })
  expect(contexts).toEqual({
    loaded: 65_536,
    set: 131_072,
    'set-too-high': 40_960,
    small: 8_192,
    unknown: 32_768,
    missing: 32_768,
  })
  expect(asked).not.toContain('POST /api/show loaded')
  expect(note).toContain('The context of small has less than 16384 tokens')
  expect(note).toContain('does not report the context of 2 models, so 32768 tokens are assumed')
})

test('llama.cpp: /props has the context of a slot, without loading a model', async () => {
  const file = '/srv/m.gguf'
  const { contexts, note } = await detected({
    'GET /v1/models': {
      data: [
        { id: file, meta: { n_ctx_train: 131_072 } },
        { id: 'asleep', meta: null },
      ],
    },
    [`GET /props?model=${encodeURIComponent(file)}&autoload=false`]: { default_generation_settings: { n_ctx: 24_576 } },
    'GET /props?model=asleep&autoload=false': { default_generation_settings: { n_ctx: 0 } },
  })
  expect(contexts).toEqual({ m: 24_576, asleep: 32_768 })
  expect(note).toContain('the context of asleep, so')
})

test('LM Studio: the context of the loaded instance, or a maximum below the assumed one', async () => {
  const { contexts } = await detected({
    'GET /v1/models': list('qwen/qwen3', 'second-instance', 'short', 'long'),
    'GET /api/v1/models': {
      models: [
        {
          key: 'qwen/qwen3',
          max_context_length: 262_144,
          loaded_instances: [{ id: 'second-instance', config: { context_length: 20_000 } }],
        },
        { key: 'short', max_context_length: 4_096, loaded_instances: [] },
        { key: 'long', max_context_length: 131_072 },
      ],
    },
  })
  expect(contexts).toEqual({ 'qwen/qwen3': 20_000, 'second-instance': 20_000, short: 4_096, long: 32_768 })
})

test('LM Studio before 0.4', async () => {
  const { contexts } = await detected({
    'GET /v1/models': list('a', 'b'),
    'GET /api/v0/models': {
      data: [
        { id: 'a', state: 'loaded', loaded_context_length: 50_000, max_context_length: 131_072 },
        { id: 'b', state: 'not-loaded', max_context_length: 131_072 },
      ],
    },
  })
  expect(contexts).toEqual({ a: 50_000, b: 32_768 })
})

test('a server that lists its contexts is not asked for them, and a llama.cpp only for what its model was started', async () => {
  const { contexts, asked } = await detected({
    'GET /v1/models': {
      data: [
        { id: 'vllm', max_model_len: 40_960 },
        { id: 'llamacpp', meta: { n_ctx: 4_096, n_ctx_train: 9_999 } },
      ],
    },
  })
  expect(contexts).toEqual({ vllm: 40_960, llamacpp: 4_096 })
  expect(asked).toEqual(['GET /v1/models', 'POST /v1/embeddings llamacpp'])
})

test.each<[string, Answers]>([
  ['of another kind', {}],
  [
    'with nonsense in its answers',
    { 'GET /api/ps': { models: [{ name: 'm', context_length: '9' }, 7, null] }, 'POST /api/show m': [] },
  ],
  [
    'with impossible numbers',
    {
      'GET /api/ps': { models: [] },
      'POST /api/show m': { parameters: 'num_ctx 0', model_info: { 'x.context_length': -1 } },
    },
  ],
])('the context of a model at a server %s is assumed', async (_, answers) => {
  const { contexts } = await detected({ 'GET /v1/models': list('m'), ...answers })
  expect(contexts.m).toBe(32_768)
})

const directory = useResource(
  () => ({ path: mkdtempSync(join(tmpdir(), 'switchyard-contexts-')) }),
  ({ path }) => rmSync(path, { recursive: true }),
)

function configFor(port: number, models: string) {
  const endpoint = `{name: mine, kind: local, base_url: "http://127.0.0.1:${port}/v1", models: [${models}]}`
  const file = `demo: {enabled: false}\ndetect: {enabled: false}\nendpoints: [${endpoint}]`
  writeFileSync(join(directory.path, 'switchyard.yaml'), file)
  return loadConfig({ env: {}, cwd: directory.path })
}

test('a configured local endpoint without context_tokens is asked, and doctor compares the configured ones', async () => {
  const { port } = await modelServer({
    'GET /v1/models': { data: [{ id: 'm-at-server', max_model_len: 40_960 }] },
  })
  const model = (id: string, more: string) =>
    `{id: ${id}, upstream_model: m-at-server, price_per_million_usd: {input: 1, output: 1}${more}}`
  const models = [
    model('asked', ''),
    model('fixed', ', context_tokens: 50000'),
    model('less', ', context_tokens: 9000'),
  ]
  const config = configFor(port, models.join(', '))
  const supply = await gatherOffers(config)
  await supply.close()
  expect(supply.offers.map(offer => [offer.modelId, offer.contextTokens, offer.maxOutputTokens])).toEqual([
    ['asked', 40_960, 40_960],
    ['fixed', 50_000, 50_000],
    ['less', 9_000, 9_000],
  ])
  expect(await checkContexts(config.endpoints)).toEqual([
    {
      check: 'context of fixed',
      ok: true,
      warning: true,
      detail: expect.stringContaining('mine reports 40960 tokens, but context_tokens is 50000'),
    },
  ])
})
