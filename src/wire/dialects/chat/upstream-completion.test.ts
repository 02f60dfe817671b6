import { describe, expect, it } from 'vitest'
import type { ChatJob } from '../../../base/domain/chat-job.ts'
import { answerBounds } from '../../../base/domain/request-bounds.ts'
import { normaliseCompletion } from './upstream-completion.ts'

const envelope = { id: 'chatcmpl-0198c0de-0000-7000-8000-00000000abcd', created: 1_750_000_000, model: 'public-model' }
const bounds = answerBounds({ choices: 1, forward: {} } as ChatJob, 16)
const normalised = (body: unknown, choices = 1, hasStop = false) =>
  normaliseCompletion(typeof body === 'string' ? body : JSON.stringify(body), envelope, {
    choices,
    hasStop,
    maxTokens: 16,
    bounds,
    hidesReasoning: false,
  })
const message = (fields: object, finish_reason: unknown = 'stop') => ({ choices: [{ message: fields, finish_reason }] })
const hi = { role: 'assistant', content: 'Hi', refusal: null }

function failureOf(body: unknown): unknown {
  try {
    normalised(body)
  } catch (failure) {
    return failure
  }
}

describe('a non-streaming answer', () => {
  it('has the id, time and model of the gateway, and only the fields OpenAI sends', () => {
    const body = {
      id: 'x',
      object: 'y',
      created: 'now',
      model: 'secret.gguf',
      provider: 'them',
      choices: [{ index: 4, message: { content: 'Hi' }, finish_reason: 'eos', matched_stop: 2 }],
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 2, cost: 1 },
    }
    expect(normalised(body)).toEqual({
      ...envelope,
      object: 'chat.completion',
      choices: [{ index: 0, message: hi, logprobs: null, finish_reason: 'stop' }],
      // For the checks of hosters; the client does not get it.
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4, answeredModel: 'secret.gguf' },
    })
  })

  it.each<[name: string, body: unknown, choice: object]>([
    [
      'content array',
      message({
        content: [
          { type: 'text', text: 'H' },
          { type: 'text', text: 'i' },
        ],
      }),
      { message: hi },
    ],
    [
      'thinking next to the text',
      message({
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] },
          { type: 'text', text: 'Hi' },
        ],
      }),
      { message: { ...hi, reasoning_content: 'hm' } },
    ],
    ['no finish_reason', message({ content: 'Hi' }, null), { finish_reason: 'stop' }],
    ['text completion', { choices: [{ text: 'Hi' }] }, { message: hi }],
    ['reasoning', message({ content: 'Hi', reasoning_content: 'r' }), { message: { ...hi, reasoning_content: 'r' } }],
    ['null tool_calls', message({ content: 'Hi', tool_calls: null }), { message: hi }],
    [
      'tool calls without id, with object arguments and "stop"',
      message({ content: null, tool_calls: [{ index: 0, function: { name: 'f', arguments: { x: 1 } } }] }),
      {
        message: {
          role: 'assistant',
          content: null,
          refusal: null,
          tool_calls: [
            { id: 'call_00000000abcd_0_0', type: 'function', function: { name: 'f', arguments: '{"x":1}' } },
          ],
        },
        finish_reason: 'tool_calls',
      },
    ],
  ])('tolerates %s', (_name, body, choice) => {
    expect(normalised(body).choices[0]).toMatchObject(choice)
  })

  const lookCall = { id: 'c', type: 'function', function: { name: 'look', arguments: '{}' } }
  it.each<[name: string, call: unknown, calls: unknown[] | undefined]>([
    ['a name that is a number', { function: { name: 7, arguments: '{}' } }, undefined],
    ['an empty name', { function: { name: '', arguments: '{}' } }, undefined],
    ['a function that is a string', { id: 'c', type: 'function', function: 'look' }, undefined],
    ['a string instead of an object', 'look', undefined],
    ['null', null, undefined],
    ['an id that is a number', { ...lookCall, id: 7 }, [{ ...lookCall, id: 'call_00000000abcd_0_0' }]],
    ['a type that is a number', { ...lookCall, type: 7 }, [lookCall]],
    ['arguments that are a number', { ...lookCall, function: { name: 'look', arguments: 7 } }, [lookCall]],
    ['no arguments', { ...lookCall, function: { name: 'look', arguments: null } }, [lookCall]],
    ['empty arguments', { ...lookCall, function: { name: 'look', arguments: '' } }, [lookCall]],
    ['a prototype key', JSON.parse('{"id":"c","function":{"name":"look"},"__proto__":{"evil":1}}'), [lookCall]],
    [
      'a custom tool',
      { id: 'c', type: 'custom', custom: { name: 'grep', input: 'x' } },
      [{ id: 'c', type: 'custom', custom: { name: 'grep', input: 'x' } }],
    ],
    ['a custom tool without its data', { id: 'c', type: 'custom' }, undefined],
  ])('reads a tool call with %s', (_name, call, calls) => {
    const read = normalised(message({ content: 'Hi', tool_calls: [call] })).choices[0]!.message
    expect(read.tool_calls).toStrictEqual(calls)
    expect(JSON.stringify(read)).not.toContain('__proto__')
  })

  it('is empty if its only tool call is invalid', () => {
    expect(failureOf(message({ content: null, tool_calls: [{ function: {} }] }))).toMatchObject({ outcome: 'empty' })
  })

  it('has at most as many tool calls as a stream', () => {
    const many = message({ content: null, tool_calls: Array.from({ length: 2_000 }, () => lookCall) })
    expect(normalised(many).choices[0]!.message.tool_calls).toHaveLength(128)
  })

  it('has no usage if the upstream reports zeros', () => {
    const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
    expect(normalised({ ...message({ content: 'Hi' }), usage }).usage).toBeUndefined()
  })

  it('has at most n choices', () => {
    const many = { choices: Array.from({ length: 5_000 }, () => ({ message: { content: 'Hi' } })) }
    expect(normalised(many).choices).toHaveLength(1)
    expect(normalised(many, 2).choices.map(choice => choice.index)).toEqual([0, 1])
  })

  it('never copies a prototype key', () => {
    const { message } = normalised('{"choices":[{"message":{"content":"Hi","__proto__":{"evil":1}}}]}').choices[0]!
    expect(message).toEqual(hi)
    expect(Object.getPrototypeOf(message)).toBe(Object.prototype)
  })

  it('may have no text if a filter refused or hidden reasoning used all tokens', () => {
    expect(normalised(message({ content: '' }, 'content_filter')).choices[0]!.finish_reason).toBe('content_filter')
    const usage = { prompt_tokens: 3, completion_tokens: 50 }
    expect(normalised({ ...message({ content: '' }, 'length'), usage }).choices[0]!.finish_reason).toBe('length')
  })

  it('may have no text if it ends at a `stop` of the request and reports generated tokens', () => {
    const stopped = (completion_tokens: number) => ({
      ...message({ content: '' }),
      usage: { prompt_tokens: 3, completion_tokens },
    })
    expect(normalised(stopped(1), 1, true).choices[0]).toMatchObject({
      message: { content: '' },
      finish_reason: 'stop',
    })
    expect(() => normalised(stopped(1), 1, false)).toThrow('no output')
    expect(() => normalised(stopped(0), 1, true)).toThrow('no output')
    expect(() => normalised(message({ content: '' }), 1, true)).toThrow('no output')
  })

  it.each<[name: string, body: unknown, outcome: string]>([
    ['HTML', '<html></html>', 'malformed'],
    ['an array', '[]', 'malformed'],
    ['no choices', { id: 'x' }, 'malformed'],
    ['empty choices', { choices: [] }, 'empty'],
    ['empty content', message({ content: '' }), 'empty'],
    ['null content', message({ content: null }), 'empty'],
    ['an error object', { error: { message: 'x', code: 500 } }, 'server_error'],
    ['an error text', { error: 'x' }, 'server_error'],
    ['a rate limit inside 200', { error: { message: 'x', code: 429 } }, 'busy'],
    ['finish_reason error', message({ content: 'Hi' }, 'error'), 'server_error'],
    ['finish_reason abort', message({ content: 'Hi' }, 'abort'), 'server_error'],
  ])('fails for %s', (_name, body, outcome) => {
    expect(failureOf(body)).toMatchObject({ name: 'UpstreamFailure', outcome })
  })
})
