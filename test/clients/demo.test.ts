import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { useDemoApp } from '../harness/use-demo-app.ts'
import { weatherTool } from './client-world.ts'

const gateway = useDemoApp()

async function setUp() {
  const customer = await gateway.customer()
  return { customer, client: new OpenAI({ apiKey: customer.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 }) }
}

const hello = { model: 'demo', messages: [{ role: 'user' as const, content: 'Hello' }], max_tokens: 40 }

test('the demo model answers, is billed by its reported usage, and is marked as a demo', async () => {
  const { client, customer } = await setUp()
  const { choices, usage } = await client.chat.completions.create(hello)
  expect(choices[0]?.message.content).toMatch(/^\[demo model\] \w+/)
  const cost = 100n * BigInt(usage!.prompt_tokens) + 400n * BigInt(usage!.completion_tokens)
  expect(await gateway.usage(customer)).toMatchObject([
    { outcome: 'served', usage_source: 'upstream', cost_nanos: cost },
  ])
  expect(await client.models.retrieve('demo')).toMatchObject({ demo: true })
})

test('the demo model streams', async () => {
  const { client } = await setUp()
  const stream = client.chat.completions.stream({ ...hello, stream_options: { include_usage: true } })
  let chunks = 0
  for await (const _chunk of stream) chunks += 1
  const { choices, usage } = await stream.finalChatCompletion()
  expect(choices[0]).toMatchObject({ finish_reason: 'length', message: { content: expect.stringMatching(/^\[demo/) } })
  expect(usage!.completion_tokens).toBe(40)
  expect(chunks).toBeGreaterThan(40)
})

test.each([false, true])('the demo model calls a tool and repeats its result, stream: %s', async stream => {
  const { client } = await setUp()
  const places: unknown[] = []
  const messages = [{ role: 'user' as const, content: 'Please get weather for my town.' }]
  const tool = {
    type: 'function' as const,
    function: {
      ...weatherTool,
      parse: JSON.parse,
      function(args: { place: string }) {
        places.push(args.place)
        return 'sunny'
      },
    },
  }
  const asked = { model: 'demo', messages, tools: [tool] }
  const runner = stream
    ? client.chat.completions.runTools({ ...asked, stream: true })
    : client.chat.completions.runTools(asked)
  expect(await runner.finalContent()).toContain('The tool answered: sunny.')
  expect(places).toEqual([expect.any(String)])
})

test('the demo model embeds: texts that share words are near each other', async () => {
  const { client } = await setUp()
  const input = ['the ferry crosses the lake', 'a ferry on the lake', 'invoices are due on monday']
  const { data, usage } = await client.embeddings.create({ model: 'demo', input })
  const [one, two, three] = data.map(({ embedding }) => embedding)
  const product = (a: number[], b: number[]) => a.reduce((sum, value, at) => sum + value * b[at]!, 0)
  expect(one).toHaveLength(256)
  expect(product(one!, one!)).toBeCloseTo(1)
  expect(product(one!, two!)).toBeGreaterThan(product(one!, three!) + 0.2)
  expect(usage.prompt_tokens).toBeGreaterThan(10)
  const short = await client.embeddings.create({ model: 'demo', input: [[1, 2], [3]], dimensions: 8 })
  expect(short.data.map(({ embedding }) => embedding.length)).toEqual([8, 8])
  await expect(client.embeddings.create({ model: 'demo', input: 'a', dimensions: 257 })).rejects.toThrow('1 to 256')
})

test('the demo model completes texts, whole and streamed', async () => {
  const { client } = await setUp()
  const asked = { model: 'demo', prompt: ['One', 'Two'], suffix: '.', max_tokens: 20 }
  const { choices, usage } = await client.completions.create(asked)
  expect(choices.map(({ index, text, finish_reason }) => [index, text.slice(0, 12), finish_reason])).toEqual([
    [0, '[demo model]', 'length'],
    [1, '[demo model]', 'length'],
  ])
  expect(usage).toMatchObject({ completion_tokens: 40 })
  let text = ''
  const stream = await client.completions.create({ ...asked, prompt: 'One', stream: true })
  for await (const chunk of stream) text += chunk.choices[0]?.text ?? ''
  expect(text).toMatch(/^\[demo model\] \w+/)
})

test('the demo model reranks: documents that share words with the query come first', async () => {
  const { customer } = await setUp()
  const documents = ['invoices are due on monday', 'the ferry leaves at six', 'a lake']
  const response = await fetch(`${gateway.url}/v1/rerank`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', query: 'when does the ferry leave', documents, top_n: 1 }),
  })
  expect(await response.json()).toMatchObject({ model: 'demo', results: [{ index: 1 }] })
})
