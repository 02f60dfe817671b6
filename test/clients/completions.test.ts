import OpenAI from 'openai'
import OpenAI6 from 'openai6'
import { beforeAll, describe, expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { textCompletion } from '../harness/scripted-completions.ts'
import { usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl, { modelId: 'text', features: new Set(['completions']) })],
}))
beforeAll(() => upstream.always(textCompletion()))

const versions = [
  ['openai 7', OpenAI],
  ['openai 6', OpenAI6 as unknown as typeof OpenAI],
] as const

describe.each(versions)('%s', (_name, Client) => {
  const asked = { model: 'text', prompt: 'On the lake', suffix: ' at noon.', max_tokens: 8 }
  async function setUp() {
    const { key } = await gateway.customer()
    return new Client({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  }

  test('completions.create', async () => {
    const client = await setUp()
    const { choices, usage, object } = await client.completions.create(asked)
    expect({ object, choices }).toEqual({
      object: 'text_completion',
      choices: [{ index: 0, text: 'a ferry crosses', logprobs: null, finish_reason: 'stop' }],
    })
    expect(usage).toEqual({ ...usageOf(5, 4), cost_usd: 0.000013 })
  })

  test('completions.create as a stream', async () => {
    const client = await setUp()
    const stream = await client.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } })
    let text = ''
    const finished: unknown[] = []
    let usage: unknown
    for await (const chunk of stream) {
      text += chunk.choices[0]?.text ?? ''
      if (chunk.choices[0]?.finish_reason) finished.push(chunk.choices[0].finish_reason)
      usage = chunk.usage ?? usage
    }
    expect({ text, finished }).toEqual({ text: 'a ferry crosses', finished: ['stop'] })
    expect(usage).toEqual({ ...usageOf(5, 4), cost_usd: 0.000013 })
  })

  test('errors', async () => {
    const client = await setUp()
    await expect(client.completions.create({ ...asked, echo: true })).rejects.toMatchObject({
      status: 400,
      param: 'echo',
    })
  })
})
