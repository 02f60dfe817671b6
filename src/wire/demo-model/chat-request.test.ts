import { describe, expect, test } from 'vitest'
import { messageText, parseChatRequest } from './chat-request.ts'
import { DemoError } from './demo-error.ts'

const body = { model: 'demo', messages: [{ role: 'user', content: 'hi' }] }

describe('parseChatRequest', () => {
  test('fills in the defaults, and treats null as absent', () => {
    const defaults = parseChatRequest(body)
    expect(defaults).toMatchObject({ stream: false, choices: 1, temperature: 1, stop: [], topLogprobs: null })
    const nulls = Object.fromEntries(
      ['stream', 'stream_options', 'max_tokens', 'stop', 'n', 'temperature', 'seed', 'tools', 'tool_choice'].map(
        name => [name, null],
      ),
    )
    expect(parseChatRequest({ ...body, ...nulls })).toEqual(defaults)
  })

  test('prefers max_completion_tokens', () => {
    expect(parseChatRequest({ ...body, max_tokens: 5, max_completion_tokens: 7 }).maxTokens).toBe(7)
    expect(parseChatRequest({ ...body, max_tokens: 5 }).maxTokens).toBe(5)
  })

  test.each([
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'king', content: 'x' }] }, 'messages[0].role'],
    [{ messages: 'hi' }, 'messages'],
    [{ model: 7 }, 'model'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ max_tokens: 1.5 }, 'max_tokens'],
    [{ temperature: 3 }, 'temperature'],
    [{ n: 9 }, 'n'],
    [{ stop: ['a', 'b', 'c', 'd', 'e'] }, 'stop'],
    [{ stop: '' }, 'stop'],
    [{ top_logprobs: 21 }, 'top_logprobs'],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ tool_choice: { type: 'function', function: { name: 'x' } } }, 'tool_choice'],
    [{ response_format: { type: 'xml' } }, 'response_format'],
  ])('refuses %o and names %s', (more, param) => {
    try {
      parseChatRequest({ ...body, ...more })
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(DemoError)
      expect(error).toMatchObject({ status: 400, param })
    }
  })

  test('names the limit when it refuses stop', () => {
    for (const stop of [['a', 'b', 'c', 'd', 'e'], 7])
      expect(() => parseChatRequest({ ...body, stop })).toThrow(
        'stop: must be a non-empty string or a list of at most 4 of them',
      )
  })

  test('refuses anything but an object', () => {
    for (const other of [null, 7, 'x', []]) expect(() => parseChatRequest(other)).toThrow(DemoError)
  })
})

test('messageText joins text parts and skips the others', () => {
  expect(messageText('plain')).toBe('plain')
  expect(messageText(null)).toBe('')
  expect(messageText([{ type: 'text', text: 'a' }, { type: 'image_url' }, { type: 'text', text: 'b' }])).toBe('a\nb')
})
