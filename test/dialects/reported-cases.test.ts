import Anthropic from '@anthropic-ai/sdk'
import { describe, expect, test } from 'vitest'
import type { AnswerEvent } from '../../src/base/domain/answer-event.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { isJsonObject, type JsonObject } from '../../src/base/runtime/json-object.ts'
import { SseDecoder } from '../../src/wire/dialects/sse/sse-decoder.ts'
import { crossingClients } from '../dispatch/crossing-clients.ts'
import { startTestApp, testOffer } from '../harness/app.ts'
import { readUntil } from '../harness/event-stream.ts'
import { type Behaviour, sse, startScriptedUpstream, status } from '../harness/scripted-upstream.ts'
import {
  type NativeDialect,
  type ScriptedDialect,
  type VendorAnswer,
  vendorAnswer,
  vendorError,
} from '../harness/scripted-vendors.ts'
import { useResource } from '../harness/use-resource.ts'

// What users of other gateways and clients reported, over the whole gateway: each server refuses what its vendor refuses, in each
// case all of it. `source` names the public issues. Kinds of such rules: vendor-rules.test.ts.

const servers = ['chat', 'responses', 'messages', 'gemini'] as const

const world = useResource(
  async () => {
    const upstream = await startScriptedUpstream()
    const offerOf = (modelId: string, speaks: readonly ScriptedDialect[], more: object = {}) => {
      const offer = testOffer(upstream.baseUrl, { modelId, endpoint: { endpointId: modelId, ...more } })
      return { ...offer, speaks, upstreamModel: modelId === 'gemini-2' ? 'gemini-2.5-flash' : offer.upstreamModel }
    }
    const cloud = { kind: 'cloud' as const }
    const timeouts = {
      ...testOffer('http://x/v1').endpoint.timeouts,
      firstTokenMs: 1_500,
      idleMs: 1_500,
      thinkingMs: 120_000,
    }
    const offers = [
      ...servers.map(server => offerOf(server, [server], cloud)),
      // As the preset of OpenAI.
      offerOf('openai', ['responses', 'chat'], cloud),
      offerOf('gemini-2', ['gemini'], cloud),
      ...servers.map(server => offerOf(`slow-${server}`, [server], { timeouts })),
    ]
    return { upstream, gateway: await startTestApp({ offers, yaml: 'server: { ping_seconds: 1 }' }) }
  },
  async ({ upstream, gateway }) => {
    await gateway.close()
    await upstream.close()
  },
)

/** What the vendor of a dialect says to a request; null if it accepts it. Written from the messages in the reports. */
const problems: Readonly<Record<ScriptedDialect, (body: JsonObject) => string | null>> = {
  chat: body => openaiProblem(body),
  responses: body => {
    const limit = body.max_output_tokens
    if (typeof limit === 'number' && limit < 16)
      return `Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got ${limit} instead.`
    const long = everyObject(body.input).find(({ call_id: id }) => typeof id === 'string' && id.length > 64)
    if (long !== undefined)
      return "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64."
    return openaiProblem(body)
  },
  messages: body => {
    const objects = everyObject(body)
    for (const { type, media_type: media, data } of objects) {
      if (type !== 'base64') continue
      if (!['image/jpeg', 'image/png', 'image/gif', 'image/webp'].includes(media as string))
        return "media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
      if (String(data).startsWith('/9j/') !== (media === 'image/jpeg'))
        return `The image was specified using the ${media} media type, but the image appears to be a image/jpeg image`
    }
    if (body.temperature !== undefined && body.top_p !== undefined)
      return '`temperature` and `top_p` cannot both be specified for this model. Please use only one.'
    for (const tool of toolsOf(body)) {
      if (!/^[a-zA-Z0-9_-]{1,128}$/.test(tool.name as string))
        return "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
      for (const field of ['eager_input_streaming', 'input_examples', 'allowed_callers'])
        if (field in tool) return `tools.0.custom.${field}: Extra inputs are not permitted`
    }
    const { format } = (body.output_config ?? {}) as { format?: { schema: unknown } }
    for (const schema of everyObject(format?.schema)) {
      const refused = ['minimum', 'maximum', 'minLength', 'maxLength', 'maxItems', 'pattern'].find(
        keyword => keyword in schema,
      )
      if (refused !== undefined || (schema.minItems as number) > 1)
        return `output_config.format.schema: property ${refused ?? 'minItems'} is not supported`
      if (schema.type === 'object' && schema.additionalProperties !== false)
        return "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
    }
    return null
  },
  gemini: body => {
    const declared = toolsOf(body).flatMap(({ functionDeclarations }) => (functionDeclarations ?? []) as JsonObject[])
    if (declared.some(({ name }) => !/^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/.test(name as string)))
      return 'Invalid value at tools[0].function_declarations[0].name: Invalid function name.'
    const config = (body.generationConfig ?? {}) as JsonObject
    return declared.length > 0 && config.responseMimeType !== undefined
      ? "Function calling with a response mime type: 'application/json' is unsupported"
      : null
  },
}

function openaiProblem(body: JsonObject): string | null {
  for (const field of ['safety_identifier', 'user'] as const) {
    const id = body[field]
    if (id !== undefined && !/^[a-zA-Z0-9_-]{1,64}$/.test(String(id)))
      return `Invalid '${field}': string too long. Expected a string with maximum length 64.`
  }
  for (const tool of toolsOf(body)) {
    const { name, parameters } = (tool.function ?? tool) as JsonObject
    if (tool.type === 'custom') continue
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(name as string))
      return "Invalid 'tools[0].name': string too long. Expected a string with maximum length 64."
    if (parameters === null)
      return 'Invalid type for tools[0].function.parameters: expected an object, but got null instead'
    if (isJsonObject(parameters) && !isJsonObject(parameters.properties))
      return `Invalid schema for function '${name}': In context=(), object schema missing properties.`
  }
  return null
}

function toolsOf({ tools }: JsonObject): JsonObject[] {
  return Array.isArray(tools) ? tools.filter(isJsonObject) : []
}

function everyObject(value: unknown): JsonObject[] {
  if (Array.isArray(value)) return value.flatMap(everyObject)
  return isJsonObject(value) ? [value, ...Object.values(value).flatMap(everyObject)] : []
}

/** Answers as the vendor does, with a call of the tool at `calls` by the name that it got, or with this answer. */
function vendor(server: ScriptedDialect, answer: VendorAnswer | { readonly calls: number }): Behaviour {
  return (request, response) => {
    const problem = problems[server](request.body)
    if (problem !== null) {
      const body = { error: { message: problem, type: 'invalid_request_error', param: null, code: null } }
      const refusal = server === 'chat' ? status(400, body) : vendorError(server as NativeDialect, 400, problem)
      return refusal(request, response)
    }
    const { calls } = answer
    if (typeof calls !== 'number') return vendorAnswer(server, answer as VendorAnswer)(request, response)
    const tools = toolsOf(request.body).flatMap(
      tool => (tool.functionDeclarations as JsonObject[] | undefined) ?? [tool],
    )
    const tool = tools[calls]!
    const name = String(((tool.function ?? tool) as JsonObject).name)
    return vendorAnswer(server, { calls: [{ id: 'call_new', name, args: { city: 'a' } }] })(request, response)
  }
}

async function post(client: ScriptedDialect, model: string, body: JsonObject, stream: boolean) {
  const customer = await world.gateway.customer()
  const paths = {
    chat: '/v1/chat/completions',
    responses: '/v1/responses',
    messages: '/v1/messages',
    gemini: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  }
  return fetch(`${world.gateway.url}${paths[client]}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${customer.key}`,
      'x-goog-api-key': customer.key,
      'content-type': 'application/json',
    },
    body: JSON.stringify(client === 'gemini' ? body : { model, ...body, ...(stream && { stream }) }),
  })
}

/** Reads an answer as its client does. */
function eventsOf(client: ScriptedDialect, text: string, stream: boolean): AnswerEvent[] {
  if (!stream) return crossingClients[client].readWhole(text)
  const decoder = new SseDecoder(1e6, uncounted)
  return crossingClients[client].readEvents([...decoder.push(Buffer.from(text)), ...decoder.end()])
}

function textOf(events: readonly AnswerEvent[], kind: 'text' | 'reasoning' = 'text'): string {
  return events.map(event => (event.kind === kind ? event.text : '')).join('')
}

interface ReportedCase {
  readonly id: string
  readonly source: string
  readonly client: ScriptedDialect
  /** The models that serve it. */
  readonly at: readonly string[]
  readonly body: JsonObject
  /** The index of the tool that the server calls; the client must get its own name. Default: a text. */
  readonly calls?: number
  readonly tool?: string
  readonly answer?: VendorAnswer
  /** Names that the headers must have. */
  readonly changed?: string
  readonly dropped?: string
}

const says = (text: string) => [{ role: 'user', content: text }]
const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const messagesOf = (more: JsonObject) => ({ max_tokens: 60, messages: says('x'), ...more })
const userId = (length: number) =>
  JSON.stringify({
    device_id: 'ab'.repeat(32),
    account_uuid: '0'.repeat(length),
    session_id: '00000000-0000-4000-8000-000000000002',
  })
const longName = 'mcp__plugin_very_long_vendor_name_for_tests__server__do_the_thing_with_many_words_in_it'
const chatTool = (name: string) => ({ type: 'function', function: { name, description: 'd', parameters: city } })
const jpeg =
  '/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQCgwSExIQEw8QEBD/yQALCAABAAEBAREA/8wABgAQEAX/2gAIAQEAAD8A0s8g/9k='
const image = (type: string) => ({
  max_tokens: 60,
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'see' },
        { type: 'image_url', image_url: { url: `data:image/${type};base64,${jpeg}` } },
      ],
    },
  ],
})
const card = (properties: JsonObject, more: object = {}) => ({
  response_format: {
    type: 'json_schema',
    json_schema: { name: 'card', schema: { type: 'object', properties, required: Object.keys(properties), ...more } },
  },
})
const longId = `call_2ee__thought__${'QUJD'.repeat(25)}`
const callWith = (id: string, name: string) => [
  { role: 'user', content: 'x' },
  { role: 'assistant', content: null, tool_calls: [{ id, type: 'function', function: { name, arguments: '{}' } }] },
  { role: 'tool', tool_call_id: id, content: 'none' },
]

const users = 'looplj/axonhub#1669, mnfst/llm-gateway#2789, maximhq/bifrost#1000, ujisati/claude-code-provider-proxy#11'
const limits = 'farion1231/cc-switch#7103, earendil-works/pi#6265, earendil-works/pi#6522, vectorize-io/hindsight#58'
const names = 'openai/codex#8174, github/copilot-cli#2581, google-gemini/gemini-cli#602'
const schemas = 'BerriAI/litellm#20813, laravel/ai#715'
const images = 'the error messages of Anthropic'

const cases: readonly ReportedCase[] = [
  {
    id: 'fail-02, D03: the id of a user as Claude Code sends it',
    source: users,
    client: 'messages',
    at: ['openai', 'chat', 'responses'],
    body: messagesOf({ metadata: { user_id: userId(0) } }),
    changed: 'safety_identifier',
  },
  {
    id: 'B26, B27: with an account',
    source: users,
    client: 'messages',
    at: ['openai', 'chat', 'responses'],
    body: messagesOf({ metadata: { user_id: userId(36) } }),
    changed: 'safety_identifier',
  },
  {
    id: 'fail-03: a limit below 16',
    source: limits,
    client: 'chat',
    at: ['openai', 'responses'],
    body: { max_tokens: 5, messages: says('yes or no?') },
    changed: 'max_output_tokens',
  },
  {
    id: 'B25: a probe with one token',
    source: limits,
    client: 'messages',
    at: ['openai', 'responses'],
    body: { max_tokens: 1, messages: says('quota') },
    changed: 'max_output_tokens',
  },
  {
    id: 'fail-04, A28, A29: an object without properties',
    source: 'github/github-mcp-server#1548',
    client: 'messages',
    at: ['openai', ...servers],
    body: messagesOf({ tools: [{ name: 'list_clusters', description: 'd', input_schema: { type: 'object' } }] }),
    calls: 0,
    tool: 'list_clusters',
  },
  {
    id: 'H06: the same from Codex',
    source: 'github/github-mcp-server#1548',
    client: 'responses',
    at: ['openai', ...servers],
    body: {
      max_output_tokens: 60,
      input: 'x',
      tools: [{ type: 'function', name: 'list_clusters', parameters: { type: 'object' }, strict: false }],
    },
    calls: 0,
    tool: 'list_clusters',
  },
  {
    id: 'H06: the same from Gemini CLI',
    source: 'github/github-mcp-server#1548',
    client: 'gemini',
    at: ['openai', ...servers],
    body: {
      contents: [{ role: 'user', parts: [{ text: 'x' }] }],
      tools: [{ functionDeclarations: [{ name: 'list_clusters', parametersJsonSchema: { type: 'object' } }] }],
    },
    calls: 0,
    tool: 'list_clusters',
  },
  {
    id: 'fail-05: a tool name of 87 characters',
    source: names,
    client: 'messages',
    at: ['openai', ...servers],
    body: messagesOf({ tools: [{ name: longName, description: 'd', input_schema: city }] }),
    calls: 0,
    tool: longName,
  },
  {
    id: 'H03: a name with a dot',
    source: names,
    client: 'gemini',
    at: ['openai', ...servers],
    body: {
      contents: [{ role: 'user', parts: [{ text: 'x' }] }],
      tools: [
        {
          functionDeclarations: [
            {
              name: 'calendar.respondToEvent',
              description: 'd',
              parametersJsonSchema: { type: 'object', properties: {} },
            },
          ],
        },
      ],
    },
    calls: 0,
    tool: 'calendar.respondToEvent',
  },
  {
    id: 'H04: names that Gemini refuses',
    source: names,
    client: 'chat',
    at: ['openai', ...servers],
    body: { max_tokens: 60, messages: says('x'), tools: [chatTool('user-profile/update'), chatTool('2fa_check')] },
    calls: 1,
    tool: '2fa_check',
  },
  {
    id: 'A19: a name with dots and slashes and its earlier call',
    source: names,
    client: 'chat',
    at: ['openai', ...servers],
    body: {
      max_tokens: 60,
      messages: callWith('c1', 'catalog.get-entity/facets'),
      tools: [chatTool('catalog.get-entity/facets')],
    },
    calls: 0,
    tool: 'catalog.get-entity/facets',
  },
  {
    id: 'A20: two such names',
    source: names,
    client: 'messages',
    at: ['openai', ...servers],
    body: messagesOf({
      tools: [
        { name: 'calendar.respondToEvent', description: 'd', input_schema: city },
        { name: longName, description: 'd', input_schema: city },
      ],
    }),
    calls: 1,
    tool: longName,
  },
  {
    id: 'C21: a digit first',
    source: names,
    client: 'chat',
    at: ['openai', ...servers],
    body: { max_tokens: 60, messages: says('x'), tools: [chatTool('2fa/check'), chatTool('user-profile/update')] },
    calls: 1,
    tool: 'user-profile/update',
  },
  {
    id: 'fail-06: keywords that Anthropic refuses',
    source: schemas,
    client: 'chat',
    at: servers,
    body: {
      max_tokens: 60,
      messages: says('x'),
      ...card(
        {
          score: { type: 'integer', minimum: 1, maximum: 10 },
          tags: { type: 'array', maxItems: 3, items: { type: 'string' } },
        },
        { additionalProperties: false },
      ),
    },
  },
  {
    id: 'B18: more of them',
    source: schemas,
    client: 'chat',
    at: servers,
    body: {
      max_tokens: 60,
      messages: says('x'),
      ...card({
        score: { type: 'integer', minimum: 1 },
        front: { type: 'string', minLength: 6, maxLength: 280 },
        tags: { type: 'array', minItems: 3, items: { type: 'string', pattern: '^a' } },
      }),
    },
  },
  {
    id: 'H09: an open object',
    source: schemas,
    client: 'gemini',
    at: servers,
    body: {
      contents: [{ role: 'user', parts: [{ text: 'x' }] }],
      generationConfig: {
        responseMimeType: 'application/json',
        responseSchema: { type: 'OBJECT', properties: { score: { type: 'INTEGER' } }, required: ['score'] },
      },
    },
  },
  {
    id: 'fail-08, C18: a long id of a call',
    source: 'histories of other gateways: call_x__thought__<signature>',
    client: 'chat',
    at: ['openai', ...servers],
    body: { max_tokens: 60, tools: [chatTool('weather')], messages: callWith(longId, 'weather') },
  },
  { id: 'fail-12, A33: image/jpg', source: images, client: 'chat', at: ['openai', ...servers], body: image('jpg') },
  { id: 'C15: bytes of another type', source: images, client: 'chat', at: ['openai', ...servers], body: image('png') },
  {
    id: 'fail-14: fields of tools that need a beta',
    source: 'anthropics/claude-code#32820, anthropics/claude-code#33180',
    client: 'messages',
    at: servers,
    body: messagesOf({
      tools: [
        {
          name: 'weather',
          description: 'd',
          input_schema: city,
          type: 'custom',
          eager_input_streaming: true,
          input_examples: [{ city: 'Oslo' }],
          allowed_callers: ['direct'],
          defer_loading: true,
          cache_control: { type: 'ephemeral' },
        },
      ],
    }),
    calls: 0,
    tool: 'weather',
  },
  {
    id: 'fail-20: nulls',
    source: 'voocel/litellm, reports of langchain',
    client: 'chat',
    at: ['openai', ...servers],
    body: {
      max_tokens: 60,
      messages: says('x'),
      tool_choice: null,
      tools: [{ type: 'function', function: { name: 'now', description: null, parameters: null, strict: null } }],
      response_format: null,
      stop: null,
      user: null,
    },
    calls: 0,
    tool: 'now',
  },
  {
    id: 'fail-21, A31: temperature and top_p',
    source: 'anomalyco/opencode#28930, infiniflow/ragflow#11815, cloud-apim/otoroshi-llm-extension#140',
    client: 'chat',
    at: ['messages'],
    body: { max_tokens: 60, messages: says('x'), temperature: 0.2, top_p: 0.4 },
    dropped: 'top_p',
  },
  {
    id: 'fail-22: JSON beside tools at Gemini 2',
    source: 'openai/openai-agents-python#656, googleapis/python-genai#867, snailyp/gemini-balance#264',
    client: 'chat',
    at: ['gemini-2'],
    body: {
      max_tokens: 60,
      messages: says('x'),
      tools: [chatTool('weather')],
      response_format: { type: 'json_object' },
    },
    dropped: 'response_format',
  },
]

const runs = cases.flatMap(each =>
  each.at.flatMap(model => [false, true].map(stream => [each.id, model, stream, each] as const)),
)

test.each(runs)('%s, at %s, stream: %s', async (_, model, stream, { client, body, calls, tool, changed, dropped }) => {
  const server = (model === 'openai' ? 'responses' : model.replace('-2', '')) as ScriptedDialect
  world.upstream.respondWith(vendor(server, calls === undefined ? { text: 'ok' } : { calls }))
  const response = await post(client, model, body, stream)
  const text = await response.text()
  expect([response.status, response.status === 200 ? '' : text]).toEqual([200, ''])
  const events = eventsOf(client, text, stream)
  if (tool === undefined) expect(textOf(events)).toBe('ok')
  else expect(events.filter(({ kind }) => kind === 'tool_start')).toMatchObject([{ name: tool }])
  if (changed !== undefined) expect(response.headers.get('x-switchyard-changed-fields')).toContain(changed)
  if (dropped !== undefined) expect(response.headers.get('x-switchyard-dropped-fields')).toContain(dropped)
})

describe('fail-10, B33: vLLM names its reasoning `reasoning` (vllm-project/vllm#27755)', () => {
  test.each([false, true])('and clients of chat get `reasoning_content`, stream: %s', async stream => {
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
    const head = { id: 'chatcmpl-7', created: 1, model: 'm' }
    const delta = (fields: object, finish: string | null = null) => ({
      ...head,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta: fields, finish_reason: finish }],
    })
    const message = { role: 'assistant', content: 'Done', reasoning: 'hm ok' }
    world.upstream.respondWith(
      stream
        ? sse([
            delta({ role: 'assistant', reasoning: 'hm ' }),
            delta({ reasoning: 'ok' }),
            delta({ content: 'Done' }),
            delta({}, 'stop'),
            { ...delta({}), choices: [], usage },
          ])
        : status(200, {
            ...head,
            object: 'chat.completion',
            choices: [{ index: 0, message, finish_reason: 'stop' }],
            usage,
          }),
    )
    const text = await (await post('chat', 'chat', messagesOf({}), stream)).text()
    expect(text).toContain(stream ? '"reasoning_content":"hm "' : '"reasoning_content":"hm ok"')
    const events = eventsOf('chat', text, stream)
    expect([textOf(events, 'reasoning'), textOf(events)]).toEqual(['hm ok', 'Done'])
  })
})

// OpenRouter: "Gemini models require OpenRouter reasoning details to be preserved in each request."
describe('fail-11, C25: the reasoning_details of OpenRouter, whose seal comes after its call, go back to it', () => {
  function respondAsOpenRouter(): void {
    const head = { id: 'chatcmpl-7', object: 'chat.completion.chunk', created: 1, model: 'm' }
    const delta = (fields: object, finish: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta: fields, finish_reason: finish }],
    })
    const details = (detail: object) => ({ reasoning_details: [{ format: 'google-gemini-v1', ...detail }] })
    const call = { index: 0, id: 'tool_w1', type: 'function', function: { name: 'weather', arguments: '{"city":"a"}' } }
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
    world.upstream.respondWith(
      sse([
        delta({
          role: 'assistant',
          content: '',
          reasoning: 'Seek',
          ...details({ type: 'reasoning.text', text: 'Seek', index: 0 }),
        }),
        delta({ tool_calls: [call] }),
        delta(details({ type: 'reasoning.encrypted', data: 'RU5D', id: 'tool_w1', index: 1 })),
        delta({}, 'tool_calls'),
        { ...delta({}), choices: [], usage },
      ]),
      (request, response) => {
        const said = request.body.messages!.find(({ role }) => role === 'assistant')
        const isKept = JSON.stringify(said?.reasoning_details ?? []).includes('RU5D')
        const behaviour = isKept
          ? vendorAnswer('chat', { text: 'ok' })
          : status(400, { error: { message: 'Provider returned error', code: 400 } })
        return behaviour(request, response)
      },
    )
  }

  test('from Claude Code, as it streams', async () => {
    respondAsOpenRouter()
    const { key } = await world.gateway.customer()
    const sdk = new Anthropic({ apiKey: key, authToken: null, baseURL: world.gateway.url, maxRetries: 0 })
    const request = {
      model: 'chat',
      max_tokens: 60,
      tools: [{ name: 'weather', input_schema: city as Anthropic.Tool.InputSchema }],
    }
    const question: Anthropic.MessageParam = { role: 'user', content: 'x' }
    const first = await sdk.messages.stream({ ...request, messages: [question] }).finalMessage()
    expect(first.stop_reason).toBe('tool_use')
    const result: Anthropic.MessageParam = {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'tool_w1', content: 'A' }],
    }
    const messages = [question, { role: 'assistant' as const, content: first.content }, result]
    const second = await sdk.messages.stream({ ...request, messages }).finalMessage()
    expect(second.content.at(-1)).toMatchObject({ type: 'text', text: 'ok' })
  })

  test.each(['responses', 'gemini'] as const)('from a client of %s that streams', async client => {
    respondAsOpenRouter()
    const { job: _, body: asked, history } = crossingClients[client]
    const { model: _model, stream: _stream, ...request } = asked(true)
    const stream = await (await post(client, 'chat', request, true)).text()
    const events = [...stream.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!) as JsonObject)
    const parts = events.flatMap(
      ({ candidates }) => (candidates as { content?: { parts?: object[] } }[] | undefined)?.[0]?.content?.parts ?? [],
    )
    const answer =
      client === 'gemini'
        ? { candidates: [{ content: { role: 'model', parts } }] }
        : (events.at(-1)!.response as JsonObject)
    const { model: _again, stream: _no, ...next } = asked(true, history(answer, { tool_w1: 'A' }))
    const text = await (await post(client, 'chat', next, true)).text()
    expect(textOf(eventsOf(client, text, true))).toBe('ok')
  })
})

describe('fail-17: a custom tool that the model answers otherwise (decolua/9router#1371, router-for-me/CLIProxyAPI#5753)', () => {
  const patch = '*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch'
  test.each([
    ['its argument', { input: patch }],
    ['an argument of another name', { patch }],
    ['a text', patch],
  ])('gives Codex the bare text from %s', async (_, args) => {
    const head = { id: 'chatcmpl-7', object: 'chat.completion.chunk', created: 1, model: 'm' }
    const delta = (fields: object, finish: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta: fields, finish_reason: finish }],
    })
    const written = [JSON.stringify(args), ...(typeof args === 'string' ? [args] : [])]
    for (const text of written) {
      const part = (piece: string) => delta({ tool_calls: [{ index: 0, function: { arguments: piece } }] })
      const start = { index: 0, id: 'c1', type: 'function', function: { name: 'apply_patch', arguments: '' } }
      world.upstream.respondWith(
        sse([
          delta({ role: 'assistant', content: null, tool_calls: [start] }),
          part(text.slice(0, 9)),
          part(text.slice(9)),
          delta({}, 'tool_calls'),
        ]),
      )
      const format = { type: 'grammar', syntax: 'lark', definition: 'start: /.+/s' }
      const body = { input: 'edit', tools: [{ type: 'custom', name: 'apply_patch', description: 'patch', format }] }
      const stream = await (await post('responses', 'chat', body, true)).text()
      const last = JSON.parse(stream.slice(stream.lastIndexOf('data: ') + 6)) as { response: { output: JsonObject[] } }
      expect(last.response.output).toMatchObject([
        { type: 'custom_tool_call', call_id: 'c1', name: 'apply_patch', input: patch },
      ])
    }
  })
})

/** The first bytes of a stream, and the rest after a silence that is longer than the limits for the first token and between pieces. */
interface SilentCase {
  readonly client: ScriptedDialect
  readonly server: ScriptedDialect
  readonly body: JsonObject
  readonly first: string
}

const event = (type: string, fields: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`
const started = { id: 'resp_1', object: 'response', status: 'in_progress', model: 'm', output: [] }
const thinkingStarts = [
  event('response.created', { response: started }),
  event('response.in_progress', { response: started }),
  event('response.output_item.added', { output_index: 0, item: { id: 'rs_1', type: 'reasoning', summary: [] } }),
].join('')
const role = `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] })}\n\n`
const messageStarts = [
  event('message_start', {
    message: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 5, output_tokens: 1 },
    },
  }),
  event('content_block_start', { index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } }),
  event('ping', {}),
].join('')
const thoughts = { max_tokens: 200, messages: says('x') }

const silent: Readonly<Record<string, SilentCase>> = {
  'fail-01, G01: a responses server': {
    client: 'chat',
    server: 'responses',
    body: { ...thoughts, reasoning_effort: 'high' },
    first: thinkingStarts,
  },
  'G02: comments of OpenRouter and DeepSeek': {
    client: 'chat',
    server: 'chat',
    body: thoughts,
    first: ': OPENROUTER PROCESSING\n\n',
  },
  'G03: pings while Claude Code sees no thinking': {
    client: 'messages',
    server: 'messages',
    body: { ...thoughts, thinking: { type: 'adaptive', display: 'omitted' } },
    first: messageStarts,
  },
  'G04: a role chunk, then nothing': { client: 'chat', server: 'chat', body: thoughts, first: role },
  'I02: a piece of a summary, then nothing': {
    client: 'responses',
    server: 'responses',
    body: { input: 'x', reasoning: { effort: 'high', summary: 'auto' } },
    first: `${thinkingStarts}${event('response.reasoning_summary_text.delta', { output_index: 0, item_id: 'rs_1', summary_index: 0, delta: 'Hm.' })}`,
  },
}

const rest: Readonly<Record<'chat' | 'responses' | 'messages', string>> = {
  chat: [
    ...[{ content: 'Answer' }, {}].map(
      (delta, index) =>
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: index === 1 ? 'stop' : null }] })}\n\n`,
    ),
    'data: [DONE]\n\n',
  ].join(''),
  messages: [
    event('content_block_delta', { index: 0, delta: { type: 'signature_delta', signature: 'c2ln' } }),
    event('content_block_stop', { index: 0 }),
    event('content_block_start', { index: 1, content_block: { type: 'text', text: '' } }),
    event('content_block_delta', { index: 1, delta: { type: 'text_delta', text: 'Answer' } }),
    event('content_block_stop', { index: 1 }),
    event('message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 9 } }),
    event('message_stop', {}),
  ].join(''),
  responses: [
    event('response.output_item.done', { output_index: 0, item: { id: 'rs_1', type: 'reasoning', summary: [] } }),
    event('response.output_item.added', {
      output_index: 1,
      item: { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress', content: [] },
    }),
    event('response.output_text.delta', { output_index: 1, item_id: 'msg_1', content_index: 0, delta: 'Answer' }),
    event('response.output_item.done', {
      output_index: 1,
      item: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Answer', annotations: [] }],
      },
    }),
    event('response.completed', {
      response: {
        ...started,
        status: 'completed',
        output: [
          {
            id: 'msg_1',
            type: 'message',
            role: 'assistant',
            content: [{ type: 'output_text', text: 'Answer', annotations: [] }],
          },
        ],
        usage: { input_tokens: 5, output_tokens: 9, total_tokens: 14 },
      },
    }),
  ].join(''),
}

// MartialBE/one-hub#652, earendil-works/pi#690, kortix-ai/suna#3696, timothy-agent/timothy#654.
test.each(Object.entries(silent))(
  '%s: thinks for longer than the limit of the first token',
  async (_, { client, server, body, first }) => {
    const gate = Promise.withResolvers<void>()
    world.upstream.respondWith(async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(first)
      await gate.promise
      response.end(rest[server as keyof typeof rest])
    })
    const response = await post(client, `slow-${server}`, body, true)
    const reader = response.body!.getReader()
    const sign = client === 'messages' ? 'event: ping\n' : ': ping\n'
    // Each ping comes after another second.
    let stream = ''
    for (let second = 0; second < 3; second++) stream += await readUntil(reader, sign)
    gate.resolve()
    stream += await readUntil(
      reader,
      client === 'chat' ? '[DONE]' : client === 'messages' ? 'message_stop"}\n\n' : 'event: response.completed',
    )
    expect(stream).toContain('Answer')
  },
)
