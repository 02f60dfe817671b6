import Anthropic from '@anthropic-ai/sdk'
import { expect, test } from 'vitest'
import { costNanos } from '../../src/base/domain/money.ts'
import { startTestApp, testOffer } from '../harness/app.ts'
import { bedrockAnswer } from '../harness/scripted-bedrock.ts'
import { startScriptedUpstream, status } from '../harness/scripted-upstream.ts'
import { type VendorAnswer, vendorAnswer } from '../harness/scripted-vendors.ts'
import { serviceAccount } from '../harness/service-account.ts'
import { useResource } from '../harness/use-resource.ts'

const awsKeys = {
  kind: 'aws_keys',
  accessKeyId: 'AKID',
  secretAccessKey: 'very-secret',
  sessionToken: null,
  region: 'us-east-1',
} as const

const world = useResource(
  async () => {
    const upstream = await startScriptedUpstream()
    const google = await startScriptedUpstream()
    google.always(status(200, { access_token: 'very-secret-token', expires_in: 3_600 }))
    const base = `http://127.0.0.1:${upstream.port}`
    const bedrock = testOffer(base, {
      modelId: 'bedrock',
      upstreamModel: 'anthropic.claude-opus-5-v1:0',
      speaks: ['converse'],
      endpoint: { endpointId: 'bedrock', credential: awsKeys },
    })
    const vertex = testOffer(`${base}/v1/projects/p/locations/global`, {
      modelId: 'vertex',
      speaks: ['messages'],
      endpoint: { endpointId: 'vertex', credential: serviceAccount(`http://127.0.0.1:${google.port}/token`) },
    })
    return { upstream, google, price: bedrock.price, gateway: await startTestApp({ offers: [bedrock, vertex] }) }
  },
  async ({ upstream, google, gateway }) => {
    await gateway.close()
    await upstream.close()
    await google.close()
  },
)

test.each<[model: string, vendor: (answer: VendorAnswer) => ReturnType<typeof status>, input: number]>([
  ['bedrock', answer => bedrockAnswer(answer), 38],
  ['vertex', answer => vendorAnswer('messages', answer), 30],
])(
  'a client of messages runs a tool loop with %s, and is billed for the reported tokens',
  async (model, vendor, input) => {
    const { gateway, upstream, price } = world
    const customer = await gateway.customer()
    const anthropic = new Anthropic({ apiKey: customer.key, authToken: null, baseURL: gateway.url, maxRetries: 0 })
    const seal = Buffer.from('a seal').toString('base64')
    const request = {
      ...{ model, max_tokens: 64 },
      tools: [{ name: 'look', input_schema: { type: 'object' as const } }],
      thinking: { type: 'adaptive' as const, display: 'summarized' as const },
    }
    const question = { role: 'user' as const, content: 'What is there?' }
    const calls = [{ id: 'call_1', name: 'look', args: { at: 'sea' } }]
    upstream.respondWith(vendor({ thinking: { text: 'Hm.', seal }, calls }))
    const first = await anthropic.messages.stream({ ...request, messages: [question] }).finalMessage()
    expect(first.content.map(({ type }) => type)).toEqual(['thinking', 'tool_use'])
    upstream.respondWith(vendor({ text: 'A ship.' }))
    const result = { type: 'tool_result' as const, tool_use_id: 'call_1', content: 'a ship' }
    const messages = [
      question,
      { role: 'assistant' as const, content: first.content },
      { role: 'user' as const, content: [result] },
    ]
    const last = await anthropic.messages.create({ ...request, messages })
    expect(last.content.at(-1)).toMatchObject({ type: 'text', text: 'A ship.' })
    // The server got its own seal back.
    expect(upstream.requests.at(-1)!.rawBody).toContain(seal)
    const rows = await gateway.settled(customer, 2)
    expect(rows.map(row => [row.input_tokens, row.output_tokens, row.cost_nanos])).toEqual(
      rows.map(() => [input, 7, costNanos(price, input, 7)]),
    )
  },
)

test('a token endpoint that fails costs the customer nothing, and the answer names no secret', async () => {
  const { google, upstream } = world
  const broken = await startTestApp({
    offers: [
      testOffer(upstream.baseUrl, {
        modelId: 'broken',
        speaks: ['gemini'],
        endpoint: { endpointId: 'broken', credential: serviceAccount(`http://127.0.0.1:${google.port}/token`) },
      }),
    ],
  })
  try {
    google.respondWith(status(400, { error: 'invalid_grant', error_description: 'secret text' }))
    const owner = await broken.customer()
    const response = await fetch(`${broken.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${owner.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'broken', messages: [{ role: 'user', content: 'Hi' }] }),
    })
    const text = await response.text()
    expect([response.status, JSON.parse(text).error.code]).toEqual([500, 'all_hosters_failed'])
    for (const secret of ['secret text', 'very-secret', 'PRIVATE']) expect(text).not.toContain(secret)
    const [row] = await broken.settled(owner, 1)
    expect(row!.cost_nanos).toBe(0n)
  } finally {
    await broken.close()
  }
})
