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
