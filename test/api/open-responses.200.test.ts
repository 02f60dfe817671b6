import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startTestApp, testOffer } from '../harness/app.ts'
import { bedrockAnswer } from '../harness/scripted-bedrock.ts'
import { type Behaviour, startScriptedUpstream } from '../harness/scripted-upstream.ts'
import { type VendorAnswer, vendorAnswer } from '../harness/scripted-vendors.ts'
import { useResource } from '../harness/use-resource.ts'

// What the compliance suite of Open Responses checks, with servers of every dialect. `npm run clients` runs the suite itself.

const dialects = ['chat', 'responses', 'messages', 'gemini', 'converse'] as const
type ServerDialect = (typeof dialects)[number]

const world = useResource(
  async () => {
    const upstream = await startScriptedUpstream()
    const offers = dialects.map(dialect => {
      const offer = testOffer(upstream.baseUrl, { modelId: dialect })
      return { ...offer, endpoint: { ...offer.endpoint, endpointId: dialect }, speaks: [dialect] }
    })
    return { upstream, gateway: await startTestApp({ offers }) }
  },
  async ({ upstream, gateway }) => {
    await gateway.close()
    await upstream.close()
  },
)

const scripted = (dialect: ServerDialect, answer: VendorAnswer): Behaviour =>
  dialect === 'converse' ? bedrockAnswer(answer) : vendorAnswer(dialect, answer)

async function clientOf() {
  const customer = await world.gateway.customer()
  return {
    customer,
    client: new OpenAI({ apiKey: customer.key, baseURL: `${world.gateway.url}/v1`, maxRetries: 0 }),
  }
}

/** Every required key of the response object of Open Responses, version 2026-04-24. */
const responseResource = z.object({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  completed_at: z.int().nullable(),
  status: z.string(),
  incomplete_details: z.object({ reason: z.string() }).nullable(),
  model: z.string(),
  previous_response_id: z.string().nullable(),
  instructions: z.string().nullable(),
  output: z.array(z.looseObject({ type: z.string(), id: z.string() })),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  tools: z.array(
    z.object({
      type: z.literal('function'),
      name: z.string(),
      description: z.string().nullable(),
      parameters: z.looseObject({}).nullable(),
      strict: z.boolean().nullable(),
    }),
  ),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string() })]),
  truncation: z.enum(['auto', 'disabled']),
  parallel_tool_calls: z.boolean(),
  text: z.object({ format: z.looseObject({ type: z.string() }), verbosity: z.string().optional() }),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: z.int(),
  temperature: z.number(),
  reasoning: z.object({ effort: z.string().nullable(), summary: z.string().nullable() }).nullable(),
  usage: z
    .object({
      input_tokens: z.int(),
      output_tokens: z.int(),
      total_tokens: z.int(),
      input_tokens_details: z.object({ cached_tokens: z.int() }),
      output_tokens_details: z.object({ reasoning_tokens: z.int() }),
    })
    .nullable(),
  max_output_tokens: z.int().nullable(),
  max_tool_calls: z.int().nullable(),
  store: z.boolean(),
  background: z.boolean(),
  service_tier: z.string(),
  metadata: z.looseObject({}),
  safety_identifier: z.string().nullable(),
  prompt_cache_key: z.string().nullable(),
})

/** Types of OpenAI's SDK demand `strict`, which JSON may leave out. */
const weatherTool = { type: 'function', name: 'get_weather' } as OpenAI.Responses.FunctionTool

describe.each(dialects)('with a server of %s', dialect => {
  const call = { calls: [{ id: 'call_1', name: 'get_weather', args: {} }] }
  const request = {
    model: dialect,
    input: 'What is the weather?',
    tools: [weatherTool],
    text: { format: { type: 'json_schema' as const, name: 'weather', schema: { type: 'object' } } },
  }

  test('a whole response has every required key, also of a tool without strict', async () => {
    const { client } = await clientOf()
    world.upstream.respondWith(scripted(dialect, call))
    const response = await client.responses.create(request)
    expect(() => responseResource.parse(response)).not.toThrow()
    expect(response.tools).toEqual([{ ...weatherTool, description: null, parameters: null, strict: null }])
    expect(response.text!.format).toEqual({ ...request.text.format, description: null, strict: false })
  })

  test('so has the response of every event of a stream', async () => {
    const { client } = await clientOf()
    world.upstream.respondWith(scripted(dialect, call))
    const responses: unknown[] = []
    for await (const event of await client.responses.create({ ...request, stream: true })) {
      if ('response' in event) responses.push(event.response)
    }
    expect(responses).toHaveLength(3)
    for (const response of responses) expect(() => responseResource.parse(response)).not.toThrow()
  })
})

const question = { type: 'message' as const, role: 'user' as const, content: 'We launch on Tuesday.' }
const spoken = { type: 'message' as const, role: 'assistant' as const, content: 'Understood.' }

describe.each(dialects)('a conversation compacted by a server of %s', dialect => {
  test('has the messages of the user and a sealed summary, and costs one request', async () => {
    const { customer, client } = await clientOf()
    world.upstream.respondWith(scripted(dialect, { text: 'The launch is on Tuesday.' }))
    const { data, response } = await client.responses
      .compact({ model: dialect, instructions: 'Be brief.', input: [question, spoken] })
      .withResponse()
    const sent = world.upstream.requests.at(-1)!.rawBody
    for (const part of ['Be brief.', question.content, spoken.content, 'Summarise the conversation']) {
      expect(sent).toContain(part)
    }
    const requestId = response.headers.get('x-request-id')
    expect(data).toMatchObject({
      id: `resp_${requestId}`,
      object: 'response.compaction',
      created_at: expect.any(Number),
    })
    const content = [{ type: 'input_text', text: question.content }]
    expect(data.output).toEqual([
      { id: expect.any(String), type: 'message', status: 'completed', role: 'user', content },
      { id: `cmp_${requestId}`, type: 'compaction', encrypted_content: expect.any(String) },
    ])
    expect(JSON.stringify(data)).not.toContain('The launch is on')
    const rows = await world.gateway.settled(customer, 1)
    expect(rows).toMatchObject([{ success: true, input_tokens: data.usage.input_tokens }])
    expect(rows[0]!.cost_nanos).toBeGreaterThan(0n)
  })

  test.each(dialects)('goes on with a server of %s, and can be compacted again', async next => {
    const { client } = await clientOf()
    world.upstream.respondWith(scripted(dialect, { text: 'The launch is on Tuesday.' }))
    const { output } = await client.responses.compact({ model: dialect, input: [question, spoken] })
    const input = [...(output as OpenAI.Responses.ResponseInput), { role: 'user' as const, content: 'When is it?' }]
    world.upstream.respondWith(scripted(next, { text: 'On Tuesday.' }))
    const response = await client.responses.create({ model: next, input })
    expect(response.output_text).toBe('On Tuesday.')
    const { rawBody } = world.upstream.requests.at(-1)!
    expect(rawBody).toContain('The launch is on Tuesday.')
    expect(rawBody).not.toContain('sy1.compaction')
    world.upstream.respondWith(scripted(next, { text: 'A second summary.' }))
    const again = await client.responses.compact({ model: next, input })
    expect(world.upstream.requests.at(-1)!.rawBody).toContain('The launch is on Tuesday.')
    expect(again.output.map(({ type }) => type)).toEqual(['message', 'message', 'compaction'])
    expect(JSON.stringify(again)).not.toContain('launch is on')
  })

  test('may have calls, whose tools it names or not', async () => {
    const { client } = await clientOf()
    const call = { type: 'function_call' as const, call_id: 'call_1', name: 'get_weather', arguments: '{"at":"sea"}' }
    const result = { type: 'function_call_output' as const, call_id: 'call_1', output: 'Fog.' }
    const summary = scripted(dialect, { text: 'There is fog.' })
    world.upstream.respondWith(summary, summary)
    await client.responses.compact({ model: dialect, input: [question, call, result] })
    const without = world.upstream.requests.at(-1)!
    expect(without.body.tools).toBeUndefined()
    for (const part of ['get_weather', 'sea', 'Fog.']) expect(without.rawBody).toContain(part)
    const tools = { tools: [weatherTool] } as object
    await client.responses.compact({ model: dialect, input: [question, call, result], ...tools })
    const withTools = world.upstream.requests.at(-1)!.rawBody
    expect(withTools).not.toContain('Called a tool')
    for (const part of ['get_weather', 'sea', 'Fog.']) expect(withTools).toContain(part)
  })
})

describe('POST /v1/responses/compact', () => {
  test('is free if the model writes nothing', async () => {
    const { customer, client } = await clientOf()
    world.upstream.respondWith(scripted('chat', { text: ' ' }))
    const refused = await client.responses.compact({ model: 'chat', input: 'Hello' }).catch((error: unknown) => error)
    expect(refused).toMatchObject({ status: 500, code: 'upstream_unavailable' })
    expect((await world.gateway.settled(customer, 1))[0]!.cost_nanos).toBe(0n)
  })

  test('refuses a body without a model or an input, and a summary that was changed', async () => {
    const { client } = await clientOf()
    const refusal = (promise: PromiseLike<unknown>) => Promise.resolve(promise).catch((error: unknown) => error)
    const noModel = client.responses.compact({ input: 'Hello' } as never)
    expect(await refusal(noModel)).toMatchObject({ status: 400, code: 'missing_parameter', param: 'model' })
    const noInput = client.responses.compact({ model: 'chat' })
    expect(await refusal(noInput)).toMatchObject({ status: 400, code: 'missing_parameter', param: 'input' })
    const item = { type: 'compaction' as const, encrypted_content: 'sy1.compaction.AAAA' }
    const changed = client.responses.create({ model: 'chat', input: [item, question] })
    expect(await refusal(changed)).toMatchObject({ status: 400, param: 'input[0].encrypted_content' })
  })
})
