import { beforeAll, describe, expect, test } from 'vitest'
import { completionChunkSchema, completionSchema } from '../../src/wire/dialects/completions/completions-schema.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { textCompletion } from '../harness/scripted-completions.ts'
import { sse, status, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const other = useUpstream()
const gateway = useTestApp(() => ({
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'text', features: new Set(['completions']) }),
    testOffer(other.baseUrl, {
      modelId: 'text',
      price: { inputPicoPerToken: 5_000_000n, outputPicoPerToken: 5_000_000n },
      features: new Set(['tools', 'completions']),
    }),
    testOffer(other.baseUrl, { modelId: 'chat' }),
  ],
}))
beforeAll(() => {
  upstream.always(textCompletion())
  other.always(textCompletion())
})

const complete = (customer: TestCustomer, body: object, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/v1/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'text', prompt: 'On the lake', tier: 'cheapest', ...body }),
  })

// biome-ignore lint/suspicious/noExplicitAny: an answer of any status
async function read(response: Response): Promise<any> {
  return await response.json()
}

// biome-ignore lint/suspicious/noExplicitAny: events of any kind
async function eventsOf(response: Response): Promise<any[]> {
  const events = (await response.text()).split('\n\n').filter(event => event.startsWith('data: '))
  return events.map(event => (event === 'data: [DONE]' ? '[DONE]' : JSON.parse(event.slice(6))))
}

describe('whole', () => {
  test('the text, its usage and its cost', async () => {
    const customer = await gateway.customer()
    const response = await complete(customer, { suffix: ' at noon.', max_tokens: 8, stop: ['\n'] })
    const body = await read(response)
    const id = response.headers.get('x-request-id')
    expect(body).toEqual({
      id: `cmpl-${id}`,
      object: 'text_completion',
      created: expect.any(Number),
      model: 'text',
      choices: [{ index: 0, text: 'a ferry crosses', logprobs: null, finish_reason: 'stop' }],
      usage: { ...usageOf(5, 4), cost_usd: 0.000013 },
    })
    expect(completionSchema.parse(body)).toEqual(body)
    expect(upstream.requests.at(-1)).toMatchObject({ path: '/v1/completions' })
    expect(upstream.requests.at(-1)!.body).toEqual({
      model: 'upstream-text',
      prompt: 'On the lake',
      suffix: ' at noon.',
      stop: ['\n'],
      max_tokens: 8,
      stream: false,
    })
    expect(await gateway.usage(customer)).toMatchObject([
      { input_tokens: 5, output_tokens: 4, cost_nanos: 13_000n, outcome: 'served', finish_reason: 'stop' },
    ])
    expect(await read(await gateway.get(customer, `/v1/usage/requests/${id}`))).toMatchObject({ id, model: 'text' })
  })

  test('without max_tokens the limit is 16, as at OpenAI', async () => {
    await complete(await gateway.customer(), {})
    expect(upstream.requests.at(-1)!.body.max_tokens).toBe(16)
  })

  test.each<[string, unknown, number, string[]]>([
    ['texts', ['On', 'At'], 1, ['a', 'b']],
    ['texts with several choices', ['On', 'At'], 2, ['a', 'b', 'c', 'd']],
    ['token ids', [1, 2, 3], 1, ['a']],
    ['lists of token ids', [[1, 2], [3]], 1, ['a', 'b']],
  ])('%s', async (_name, prompt, n, texts) => {
    const customer = await gateway.customer()
    upstream.respondWith(textCompletion({ texts, usage: usageOf(3, 4) }))
    const { choices } = await read(await complete(customer, { prompt, n }))
    expect(choices).toMatchObject(texts.map((text, index) => ({ index, text })))
    expect(upstream.requests.at(-1)!.body.prompt).toEqual(prompt)
  })

  test('log probabilities are passed on', async () => {
    const logprobs = { tokens: ['a'], token_logprobs: [-0.1], top_logprobs: [{ a: -0.1 }], text_offset: [0] }
    upstream.respondWith(textCompletion({ logprobs }))
    const { choices } = await read(await complete(await gateway.customer(), { logprobs: 1 }))
    expect(choices[0].logprobs).toEqual(logprobs)
  })

  test('an answer without text is valid and free if the model ended at once', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(textCompletion({ texts: [''], usage: usageOf(5, 1) }))
    const { choices, usage } = await read(await complete(customer, {}))
    expect(choices).toMatchObject([{ text: '', finish_reason: 'stop' }])
    expect(usage.cost_usd).toBe(0)
  })

  test('a server without usage is billed by the count of the gateway', async () => {
    upstream.respondWith(textCompletion({ usage: null }))
    const { usage } = await read(await complete(await gateway.customer(), { suffix: ' at noon.' }))
    const prompt_tokens = countTokens('On the lake\n at noon.') + 2
    expect(usage).toMatchObject({ prompt_tokens, completion_tokens: countTokens('a ferry crosses') })
  })

  test('a text longer than max_tokens is cut and billed to the limit', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(textCompletion({ texts: ['word '.repeat(100)], usage: usageOf(5, 100) }))
    const { choices, usage } = await read(await complete(customer, { max_tokens: 10 }))
    expect(choices[0].finish_reason).toBe('length')
    expect(choices[0].text.length).toBeLessThan(100)
    expect(usage.completion_tokens).toBe(10)
  })

  test('a failed server is replaced by another', async () => {
    upstream.respondWith(status(500, 'broken'))
    const response = await complete(await gateway.customer(), {})
    expect(await read(response)).toMatchObject({ usage: { cost_usd: 0.000045 } })
  })
})

describe('streams', () => {
  test('pieces of text, one finish_reason, usage if asked for, [DONE]', async () => {
    const customer = await gateway.customer()
    const response = await complete(customer, { stream: true, stream_options: { include_usage: true } })
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    const events = await eventsOf(response)
    expect(events.pop()).toBe('[DONE]')
    for (const event of events) expect(completionChunkSchema.parse(event)).toEqual(event)
    expect(events.flatMap(({ choices }) => choices.map(({ text }: { text: string }) => text))).toEqual([
      'a ',
      'ferry ',
      'crosses',
      '',
    ])
    expect(events.map(({ choices }) => choices[0]?.finish_reason)).toEqual([null, null, null, 'stop', undefined])
    expect(events.map(({ usage }) => usage)).toEqual([null, null, null, null, { ...usageOf(5, 4), cost_usd: 0.000013 }])
    expect(new Set(events.map(({ id }) => id))).toEqual(new Set([`cmpl-${response.headers.get('x-request-id')}`]))
    expect(upstream.requests.at(-1)!.body.stream_options).toEqual({ include_usage: true })
  })

  test('without include_usage there is no usage', async () => {
    const events = await eventsOf(await complete(await gateway.customer(), { stream: true }))
    expect(events.filter(event => event.usage !== undefined)).toEqual([])
  })

  test('several prompts', async () => {
    upstream.respondWith(textCompletion({ texts: ['a b', 'c'] }))
    const events = await eventsOf(await complete(await gateway.customer(), { stream: true, prompt: ['On', 'At'] }))
    const texts = ['', '']
    for (const { choices = [] } of events) for (const { index, text } of choices) texts[index] += text
    expect(texts).toEqual(['a b', 'c'])
  })

  test('a stream is cut at max_tokens', async () => {
    const customer = await gateway.customer()
    const event = { choices: [{ index: 0, text: 'some more words of it ', finish_reason: null }] }
    upstream.respondWith(sse(Array(60).fill(event), { ending: 'stall' }))
    const events = await eventsOf(await complete(customer, { stream: true, max_tokens: 5 }))
    expect(events.at(-1)).toBe('[DONE]')
    expect(events.at(-2).choices[0].finish_reason).toBe('length')
    expect(await gateway.usage(customer)).toMatchObject([{ output_tokens: 5, finish_reason: 'length' }])
  })

  test('a stream that breaks off is free and ends with an error', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(sse([{ choices: [{ index: 0, text: 'a ferry', finish_reason: null }] }], { ending: 'reset' }))
    const events = await eventsOf(await complete(customer, { stream: true }))
    expect(events).toMatchObject([{ choices: [{ text: 'a ferry' }] }, { error: { code: 'stream_interrupted' } }])
    expect(await gateway.usage(customer)).toMatchObject([{ outcome: 'interrupted', cost_nanos: 0n }])
  })
})

test('an Idempotency-Key repeats a stream without another charge', async () => {
  const customer = await gateway.customer()
  const send = () => complete(customer, { stream: true }, { 'idempotency-key': 'one' })
  const first = await (await send()).text()
  await expect.poll(async () => (await send()).text()).toBe(first)
  expect(await gateway.usage(customer)).toHaveLength(1)
})

test('max_cost_usd lowers max_tokens, and dry_run shows it', async () => {
  const customer = await gateway.customer()
  const quote = await read(await complete(customer, { max_tokens: 1_000, max_cost_usd: 0.001, dry_run: true }))
  expect(quote).toMatchObject({ max_tokens_clamped_by: 'max_cost_usd', expected: { input_tokens: 5 } })
  expect(quote.max_tokens).toBeLessThan(200)
})

test('auto chooses among the models that serve completions', async () => {
  const quote = await read(await complete(await gateway.customer(), { model: 'auto', dry_run: true }))
  expect(quote.candidates.map(({ model }: { model: string }) => model)).toEqual(['text', 'text'])
})

test.each<[string, object, string, string?]>([
  ['no prompt', { prompt: undefined }, 'prompt', 'missing_parameter'],
  ['a number', { prompt: 7 }, 'prompt'],
  ['a list of objects', { prompt: [{}] }, 'prompt[0]'],
  ['too many prompts', { prompt: Array(129).fill('x') }, 'prompt'],
  ['too many choices', { prompt: Array(16).fill('x'), n: 16 }, 'n'],
  ['echo', { echo: true }, 'echo'],
  ['best_of', { best_of: 3 }, 'best_of'],
  ['a suffix that is no text', { suffix: 1 }, 'suffix'],
  ['logprobs of chat', { logprobs: true }, 'logprobs'],
  ['max_tokens of 0', { max_tokens: 0 }, 'max_tokens'],
  ['a chat model', { model: 'chat' }, 'model'],
  ['a prompt longer than the context', { prompt: 'word '.repeat(60_000) }, 'prompt', 'context_length_exceeded'],
])('%s is refused', async (_name, fields, param, code = 'invalid_value') => {
  const customer = await gateway.customer()
  const response = await complete(customer, fields)
  expect(response.status).toBe(400)
  expect(await read(response)).toMatchObject({ error: { code, param } })
  expect(await gateway.usage(customer)).toEqual([])
})
