import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { detectLocal } from '../../src/market/supply/detection/detect-local.ts'

const price = { inputPicoPerToken: 1n, outputPicoPerToken: 2n }
const servers: Server[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  }
})

async function listen(answer: RequestListener): Promise<number> {
  const server = createServer(answer)
  servers.push(server)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

const json =
  (body: unknown, status = 200): RequestListener =>
  (_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

const detect = (found: Record<string, number>, more: Partial<Parameters<typeof detectLocal>[0]> = {}) =>
  detectLocal({
    price,
    ownPorts: [],
    timeoutMs: 10_000,
    servers: Object.entries(found).map(([name, port]) => ({ name, port })),
    ...more,
  })

test('models of the servers that answer become local offers at the given price', async () => {
  const asked: string[] = []
  const ollama = await listen((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    json({ object: 'list', data: [{ id: 'llama3.2:3b' }, { id: 'nomic-embed-text:latest' }] })(request, response)
  })
  const vllm = await listen(json({ object: 'list', data: [{ id: 'Qwen/Qwen3-8B', max_model_len: 40_960 }] }))
  const file = '/srv/models/gemma-3-4b-it-Q4_K_M-00001-of-00002.gguf'
  const llamacpp = await listen(json({ object: 'list', data: [{ id: file, meta: { n_ctx_train: 131_072 } }] }))

  const found = await detect({ ollama, vllm, llamacpp })
  expect(asked[0]).toBe('GET /v1/models')
  expect(found.map(({ finding }) => [finding.name, finding.models])).toEqual([
    ['ollama', ['llama3.2:3b', 'nomic-embed-text:latest']],
    ['vllm', ['Qwen/Qwen3-8B']],
    ['llamacpp', ['gemma-3-4b-it-Q4_K_M']],
  ])
  const [one, , two, three] = found.flatMap(({ offers }) => offers)
  expect(one).toMatchObject({
    offerId: 'ollama/llama3.2:3b',
    endpoint: { kind: 'local', baseUrl: `http://127.0.0.1:${ollama}/v1`, apiKey: null, hosterShareBps: 0 },
    price,
  })
  expect(two!.contextTokens).toBe(40_960)
  expect(three).toMatchObject({ upstreamModel: file, contextTokens: 131_072 })
})

test('the context is the reported one, or an assumed one if that is invalid', async () => {
  const meta = { n_ctx: 4_096, n_ctx_train: 131_072 }
  const data = [
    { id: 'served', meta },
    { id: 'odd', max_model_len: -1, context_length: 1.5 },
  ]
  const [found] = await detect({ llamacpp: await listen(json({ data })) })
  expect(found!.offers.map(offer => offer.contextTokens)).toEqual([4_096, 32_768])
})

test('a model id is offered once, and reserved ids never', async () => {
  const data = [{ id: '/a/m.gguf' }, { id: '/b/m.gguf' }, { id: 'auto' }]
  const [found] = await detect({ llamacpp: await listen(json({ data })) })
  expect(found!.offers.map(offer => offer.upstreamModel)).toEqual(['/a/m.gguf'])
})

test('ids that cannot be requested are skipped', async () => {
  const usable = ['a b', '模型', 'x'.repeat(256)]
  const ids = ['\ud800', 'line\nbreak', 'nul\0', 'x'.repeat(257), ...usable]
  const server = await listen(json({ data: ids.map(id => ({ id })) }))
  const [found] = await detect({ vllm: server })
  expect(found!.finding.models).toEqual(usable)
})

test('a list without end is cut', async () => {
  const server = await listen(json({ data: Array.from({ length: 50_000 }, (_, n) => ({ id: `${n}` })) }))
  const [found] = await detect({ vllm: server })
  expect(found!.offers).toHaveLength(1_000)
})

test('a server whose models cannot be offered is found but offers nothing', async () => {
  const [found] = await detect({ vllm: await listen(json({ data: [{ id: 'whisper-1' }] })) })
  expect(found).toMatchObject({ offers: [], finding: { models: [], note: expect.stringContaining('no model loaded') } })
})

// Seen with an Ollama built from its sources. Its models are offered as soon as there are some.
test('an Ollama without models is a model server', async () => {
  const [found] = await detect({ ollama: await listen(json({ object: 'list', data: null })) })
  expect(found).toMatchObject({ finding: { name: 'ollama', models: [] }, offers: [] })
})

// Seen with transformers 5.24, `transformers serve`, which answers at the default port of vLLM.
test('a transformers serve is recognised by its list', async () => {
  const listed = { owned_by: 'local', id: '/models/tiny', object: 'model', created: 0, status: { value: 'loaded' } }
  const [found] = await detect({ vllm: await listen(json({ object: 'list', data: [listed] })) })
  expect(found!.offers.map(({ upstreamModel, features }) => [upstreamModel, [...features]])).toEqual([
    ['/models/tiny', ['chat', 'completions']],
  ])
})

test('models that embed by their name or entry are offered for embeddings only', async () => {
  const embed = ['bge-m3', 'nomic-embed-text:latest', 'all-minilm', 'intfloat/e5-mistral', 'Alibaba-NLP/gte-large']
  const said = [
    { id: 'one', type: 'embeddings' },
    { id: 'two', capabilities: ['embed'] },
    { id: 'three', type: 'llm', capabilities: ['completion', 'tools'] },
  ]
  const [found] = await detect({ ollama: await listen(json({ data: [...embed.map(id => ({ id })), ...said] })) })
  expect(found!.offers.map(({ modelId, features }) => [modelId, [...features]])).toEqual([
    ...[...embed, 'one', 'two'].map(id => [id, ['embeddings']]),
    ['three', ['chat', 'completions']],
  ])
})

test('rerankers are offered where the server can rerank', async () => {
  const list = json({ data: [{ id: 'BAAI/bge-reranker-v2-m3' }, { id: 'other', capabilities: ['rerank'] }] })
  const [vllm, ollama] = await detect({ vllm: await listen(list), ollama: await listen(list) })
  expect(vllm!.offers.map(({ features }) => [...features])).toEqual([['rerank'], ['rerank']])
  expect(ollama!.offers).toEqual([])
})

test.each([401, 403])('a server that answers %i needs a key and is listed but not offered', async code => {
  const lmstudio = await listen(json({ error: 'key' }, code))
  const [found] = await detect({ lmstudio })
  expect(found!.offers).toEqual([])
  expect(found!.finding.note).toContain('needs an API key')
})

test.each<[string, RequestListener]>([
  ['a web page', (_, response) => response.end('<html>')],
  ['another JSON service', json({ hello: 'world' })],
  ['a list of something else', json({ data: [1, null, { id: 7 }, { id: '' }] })],
  ['not found', json({}, 404)],
  ['a redirect elsewhere', (_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()],
  [
    'an endless body',
    (_, response) => {
      const more = () => {
        while (response.write(Buffer.alloc(65_536, 0x20))) {}
        response.once('drain', more)
      }
      more()
    },
  ],
  ['no answer', () => {}],
])('%s offers nothing', async (_, answer) => {
  const found = await detect({ something: await listen(answer) }, { timeoutMs: 200 })
  expect(found.flatMap(({ offers }) => offers)).toEqual([])
})

test('our own port, declared names and closed ports are skipped', async () => {
  let requests = 0
  const port = await listen((request, response) => {
    requests++
    json({ data: [{ id: 'm' }] })(request, response)
  })
  expect(await detect({ ollama: port }, { ownPorts: [port] })).toEqual([])
  expect(await detect({ ollama: port }, { except: new Set(['ollama']) })).toEqual([])
  expect(requests).toBe(0)
  const closed = await listen(json({}))
  await new Promise(resolve => servers.pop()!.close(resolve))
  expect(await detect({ ollama: closed })).toEqual([])
})

/** llama.cpp with one model: what it serves, and what it answers elsewhere, as its sources say. */
function llamaCpp(id: string, serves: readonly string[], asked: string[] = []): RequestListener {
  return (request, response) => {
    asked.push(`${request.method} ${request.url}`)
    const meta = { n_ctx: 8_192, n_ctx_train: 8_192, n_embd: 768 }
    if (request.url === '/v1/models') json({ data: [{ id, owned_by: 'llamacpp', meta }] })(request, response)
    else {
      const code = serves.includes(request.url!) ? 400 : 501
      json({ error: { code, message: 'no', type: 'not_supported_error' } }, code)(request, response)
    }
  }
}

test.each<[string, string, string[], string[]]>([
  ['embeds', '/models/granite-107m.gguf', ['/v1/embeddings'], ['embeddings']],
  ['reranks', '/models/granite-107m.gguf', ['/v1/embeddings', '/v1/rerank'], ['rerank']],
  ['generates in spite of its name', 'embed-anything.gguf', [], ['chat', 'completions']],
])('a llama.cpp is asked whether its model %s', async (_, id, serves, features) => {
  const asked: string[] = []
  const port = await listen(llamaCpp(id, serves, asked))
  const [found] = await detect({ llamacpp: port })
  expect(found!.offers.map(offer => [...offer.features])).toEqual([features])
  // It is not asked again about a model that is known.
  const known = new Map(found!.offers.map(offer => [offer.offerId, offer]))
  asked.length = 0
  const [again] = await detect({ llamacpp: port }, { known })
  expect([asked, again!.offers]).toEqual([['GET /v1/models'], found!.offers])
})

test('a model that a router of llama.cpp has not loaded is known by its name only', async () => {
  const data = [{ id: 'a.gguf', owned_by: 'llamacpp', meta: { n_ctx: 8_192 }, status: { value: 'unloaded' } }]
  const asked: unknown[] = []
  const port = await listen((request, response) => {
    asked.push(request.method)
    json({ data })(request, response)
  })
  const [found] = await detect({ llamacpp: port })
  expect([found!.offers.map(({ features }) => [...features]), asked]).toEqual([[['chat', 'completions']], ['GET']])
})

test.each<[string, object, string]>([
  ['vLLM', { owned_by: 'vllm', max_model_len: 4_096 }, 'Start vLLM with a larger --max-model-len.'],
  ['SGLang', { owned_by: 'sglang', max_model_len: 4_096 }, 'Start SGLang with a larger --context-length.'],
  ['llama.cpp', { owned_by: 'llamacpp', meta: { n_ctx: 4_096 } }, 'Start llama.cpp with a larger -c.'],
  ['an unknown server', { max_model_len: 4_096 }, 'Start the server with a larger context.'],
])('the hint for a small context names the setting of %s, on any port', async (_, entry, hint) => {
  const [found] = await detect({ 'local-9': await listen(json({ data: [{ id: 'm', ...entry }] })) })
  expect(found!.finding.note).toContain(hint)
})
