import { countTokens as countWhole } from 'gpt-tokenizer/encoding/o200k_base'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type DemoUpstream, startDemoUpstream } from './start-demo-upstream.ts'

const apiKey = 'only-for-this-test'
let demo: DemoUpstream
let openai: OpenAI

beforeAll(async () => {
  demo = await startDemoUpstream({ tokensPerSecond: 1_000_000, firstTokenMs: 0, apiKey })
  openai = new OpenAI({ baseURL: demo.baseUrl, apiKey, maxRetries: 0 })
})
afterAll(() => demo.close())

type Body = OpenAI.ChatCompletionCreateParamsNonStreaming
const ask = (more: Partial<Body> = {}) =>
  openai.chat.completions.create({
    model: 'demo',
    messages: [{ role: 'user', content: 'Tell me of points.' }],
    ...more,
  })

async function stream(more: Partial<OpenAI.ChatCompletionCreateParams> = {}) {
  const chunks: OpenAI.ChatCompletionChunk[] = []
  const answer = await openai.chat.completions.create({
    model: 'demo',
    messages: [{ role: 'user', content: 'Tell me of points.' }],
    ...more,
    stream: true,
  })
  for await (const chunk of answer) chunks.push(chunk)
  return chunks
}

const contentOf = (chunks: OpenAI.ChatCompletionChunk[]) =>
  chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join('')

const weather = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, unit: { enum: ['celsius', 'fahrenheit'] } },
      required: ['city', 'unit'],
    },
  },
}

interface Wrong {
  path?: string
  headers?: Record<string, string>
  body?: object
  text?: string
}

describe('a complete answer', () => {
  test('is labelled, counts its tokens exactly and ends with a sentence', async () => {
    const answer = await ask()
    const text = answer.choices[0]!.message.content!
    expect(text).toMatch(/^\[demo model\] [A-Z].*\.$/)
    expect(answer).toMatchObject({ object: 'chat.completion', model: 'demo' })
    expect(answer.choices[0]!.finish_reason).toBe('stop')
    expect(answer.usage!.completion_tokens).toBe(countWhole(text))
    expect(answer.usage!.prompt_tokens).toBe(3 + 3 + countWhole('user') + countWhole('Tell me of points.'))
    expect(answer.usage!.total_tokens).toBe(answer.usage!.prompt_tokens + answer.usage!.completion_tokens)
  })

  test('depends only on messages, seed and temperature', async () => {
    const text = async (more: Partial<Body>) => (await ask(more)).choices[0]!.message.content
    expect(await text({ seed: 1 })).toBe(await text({ seed: 1 }))
    expect(await text({ seed: 1 })).not.toBe(await text({ seed: 2 }))
    expect(await text({ temperature: 0, seed: 1 })).toBe(await text({ temperature: 0, seed: 2 }))
    expect(await text({ temperature: 2 })).not.toBe(await text({ temperature: 0 }))
    expect(await text({ messages: [{ role: 'user', content: 'Something else.' }] })).not.toBe(await text({}))
  })

  test('respects max_tokens and max_completion_tokens', async () => {
    for (const limit of [{ max_tokens: 7 }, { max_completion_tokens: 7 }]) {
      const answer = await ask(limit)
      expect(answer.choices[0]!.finish_reason).toBe('length')
      expect(answer.usage!.completion_tokens).toBe(7)
      expect(countWhole(answer.choices[0]!.message.content!)).toBe(7)
    }
  })

  test('stops before a stop text', async () => {
    const whole = (await ask()).choices[0]!.message.content!
    const stop = whole.slice(30, 36)
    const answer = await ask({ stop })
    expect(answer.choices[0]!.message.content).toBe(whole.slice(0, whole.indexOf(stop)))
    expect(answer.choices[0]!.finish_reason).toBe('stop')
  })

  test('generates n different choices and counts all of them', async () => {
    const answer = await ask({ n: 3 })
    const texts = answer.choices.map(choice => choice.message.content!)
    expect(answer.choices.map(choice => choice.index)).toEqual([0, 1, 2])
    expect(new Set(texts).size).toBe(3)
    expect(answer.usage!.completion_tokens).toBe(texts.reduce((sum, text) => sum + countWhole(text), 0))
  })

  test('lists the log probabilities of its text', async () => {
    const answer = await ask({ logprobs: true, top_logprobs: 3 })
    const rows = answer.choices[0]!.logprobs!.content!
    expect(rows.map(row => row.token).join('')).toBe(answer.choices[0]!.message.content)
    expect(rows).toHaveLength(answer.usage!.completion_tokens)
    for (const row of rows) {
      expect(row.logprob).toBeLessThanOrEqual(0)
      expect(row.bytes).toEqual([...Buffer.from(row.token)])
      expect(row.top_logprobs.length).toBeLessThanOrEqual(3)
      const mass = row.top_logprobs.reduce((sum, top) => sum + Math.exp(top.logprob), 0)
      expect(mass).toBeLessThanOrEqual(1 + 1e-9)
    }
  })

  test('states that it cannot see an image', async () => {
    const content = [
      { type: 'text' as const, text: 'What is this?' },
      { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } },
    ]
    const answer = await ask({ messages: [{ role: 'user', content }] })
    expect(answer.choices[0]!.message.content).toMatch(/^\[demo model\] I cannot see images\. [A-Z]/)
  })

  test('is JSON on request', async () => {
    const object = await ask({ response_format: { type: 'json_object' } })
    expect(JSON.parse(object.choices[0]!.message.content!)).toMatchObject({
      demo: true,
      text: expect.stringMatching(/^\[demo model\] /),
    })
    const shape = z.strictObject({ stops: z.array(z.string()).min(2), late: z.boolean() })
    const schema = { name: 'stops', schema: z.toJSONSchema(shape), strict: true }
    const fitting = await ask({ response_format: { type: 'json_schema', json_schema: schema } })
    const text = fitting.choices[0]!.message.content!
    shape.parse(JSON.parse(text))
    expect(fitting.usage!.completion_tokens).toBe(countWhole(text))
  })

  test('survives special tokens, split characters and long runs in the prompt', async () => {
    for (const content of ['<|endoftext|>', '👩‍👩‍👧 漢字', 'a'.repeat(200_000), '\ud83d']) {
      expect((await ask({ messages: [{ role: 'user', content }] })).usage!.prompt_tokens).toBeGreaterThan(7)
    }
  })
})

describe('a stream', () => {
  test('has the text of the complete answer, one token per chunk, role first, one finish_reason', async () => {
    const whole = await ask()
    const chunks = await stream({ stream_options: { include_usage: true } })
    expect(contentOf(chunks)).toBe(whole.choices[0]!.message.content)
    expect(chunks[0]!.choices[0]!.delta).toEqual({ role: 'assistant', content: '' })
    expect(chunks.filter(chunk => chunk.choices[0]?.finish_reason)).toHaveLength(1)
    expect(chunks.filter(chunk => chunk.choices[0]?.delta.content)).toHaveLength(whole.usage!.completion_tokens)
    expect(new Set(chunks.map(chunk => `${chunk.id} ${chunk.created} ${chunk.model}`)).size).toBe(1)
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: whole.usage })
  })

  test('sends usage only on request', async () => {
    const chunks = await stream()
    expect(chunks.some(chunk => 'usage' in chunk)).toBe(false)
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe('stop')
  })

  test('never shows a stop text and respects the token limit', async () => {
    const whole = contentOf(await stream())
    const stop = whole.slice(41, 50)
    expect(contentOf(await stream({ stop: [stop, 'unheard of'] }))).toBe(whole.slice(0, whole.indexOf(stop)))
    const short = await stream({ max_tokens: 5 })
    expect(countWhole(contentOf(short))).toBe(5)
    expect(short.at(-1)!.choices[0]!.finish_reason).toBe('length')
  })

  test('keeps split characters complete', async () => {
    const messages = [
      { role: 'user' as const, content: 'Read it.' },
      { role: 'tool' as const, tool_call_id: 'call_1', content: '👩‍👩‍👧 龘 ok' },
    ]
    expect(contentOf(await stream({ messages }))).toMatch(/^\[demo model\] The tool answered: 👩‍👩‍👧 龘 ok\. [A-Z]/)
  })

  test('works with the stream helper of the SDK, with several choices', async () => {
    const runner = openai.chat.completions.stream({
      model: 'demo',
      n: 2,
      messages: [{ role: 'user', content: 'Tell me.' }],
      logprobs: true,
    })
    const final = await runner.finalChatCompletion()
    expect(final.choices).toHaveLength(2)
    expect(final.choices[0]!.logprobs!.content!.map(row => row.token).join('')).toBe(final.choices[0]!.message.content)
  })
})

describe('tools', () => {
  const messages = [{ role: 'user' as const, content: 'Use get_weather for me.' }]

  test('calls a function that the user names, with arguments that fit', async () => {
    const answer = await ask({ messages, tools: [weather] })
    const { finish_reason, message } = answer.choices[0]!
    expect(finish_reason).toBe('tool_calls')
    expect(message.content).toBeNull()
    const call = message.tool_calls![0] as OpenAI.ChatCompletionMessageFunctionToolCall
    expect(call).toMatchObject({ type: 'function', function: { name: 'get_weather' } })
    expect(JSON.parse(call.function.arguments)).toMatchObject({ city: expect.any(String), unit: 'celsius' })
    expect(answer.usage!.completion_tokens).toBe(countWhole('get_weather') + countWhole(call.function.arguments))
  })

  test('streams the call: id and name first, then the arguments', async () => {
    const chunks = await stream({ messages, tools: [weather], tool_choice: 'required' })
    const calls = chunks.flatMap(chunk => chunk.choices[0]?.delta.tool_calls ?? [])
    expect(calls[0]).toMatchObject({ index: 0, type: 'function', function: { name: 'get_weather', arguments: '' } })
    expect(calls[0]!.id).toMatch(/^call_/)
    JSON.parse(calls.map(call => call.function!.arguments).join(''))
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe('tool_calls')
  })

  test('cuts a call at the token limit', async () => {
    const answer = await ask({ messages, tools: [weather], max_tokens: 4 })
    expect(answer.choices[0]!.finish_reason).toBe('length')
    expect(answer.usage!.completion_tokens).toBe(4)
  })

  test('answers in text after the result', async () => {
    const runner = openai.chat.completions.runTools({
      model: 'demo',
      messages,
      tools: [{ type: 'function', function: { ...weather.function, description: '', function: () => '20 degrees' } }],
    })
    expect(await runner.finalContent()).toMatch(/^\[demo model\] The tool answered: 20 degrees\. /)
  })
})

describe('the server', () => {
  test.each([
    ['a wrong key', 401, null, { headers: { authorization: 'Bearer wrong' } }],
    ['another path', 404, null, { path: '/images' }],
    ['a stop that is no text', 400, 'stop', { body: { stop: 7 } }],
    ['more than four stop texts', 400, 'stop', { body: { stop: ['a', 'b', 'c', 'd', 'e'] } }],
    ['a required call without tools', 400, 'tool_choice', { body: { tool_choice: 'required' } }],
    ['a tool without a name', 400, 'tools[0].function.name', { body: { tools: [{ function: {} }] } }],
    ['broken JSON', 500, null, { text: '{' }],
  ])(
    'refuses %s as OpenAI does',
    async (_name, status, param, { path = '/chat/completions', headers, body, text }: Wrong) => {
      const response = await fetch(`${demo.baseUrl}${path}`, {
        method: 'POST',
        body: text ?? JSON.stringify({ messages: [{ role: 'user', content: 'x' }], ...body }),
        headers: { authorization: `Bearer ${apiKey}`, ...headers },
      })
      expect(response.status).toBe(status)
      const type = status === 500 ? 'server_error' : 'invalid_request_error'
      expect(await response.json()).toMatchObject({ error: { message: expect.any(String), type, param } })
    },
  )

  const everyMinute = { tokensPerSecond: 1 / 60, firstTokenMs: 0, apiKey }
  const ask = (upstream: DemoUpstream) =>
    fetch(`${upstream.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}` },
      body: JSON.stringify({ stream: true, messages: [{ role: 'user', content: 'x' }] }),
    })

  test('sends one token after the other, and disconnects readers when it closes', async () => {
    const slow = await startDemoUpstream({ ...everyMinute, clock: { epochMs: () => 0, monotonicMs: () => 0 } })
    const reader = (await ask(slow)).body!.pipeThrough(new TextDecoderStream()).getReader()
    const { value } = await reader.read()
    expect(value!.match(/"content":"[^"]*"/g)).toEqual(['"content":""', '"content":"["'])
    const next = reader.read()
    await slow.close()
    await expect(next).rejects.toThrow()
  })

  test('catches up when its timer was late', async () => {
    let readings = 0
    const monotonicMs = () => ++readings * 3_600_000
    const late = await startDemoUpstream({ ...everyMinute, clock: { epochMs: () => 0, monotonicMs } })
    expect(await (await ask(late)).text()).toMatch(/\[DONE\]\n\n$/)
    await late.close()
  })
})
