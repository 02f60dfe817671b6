import { describe, expect, it } from 'vitest'
import { readUpstreamError } from './upstream-error.ts'

describe('readUpstreamError', () => {
  it.each<[name: string, body: unknown, expected: object]>([
    [
      'OpenAI',
      { error: { message: 'm', type: 't', param: 'p', code: 'c' } },
      { message: 'm', type: 't', param: 'p', code: 'c' },
    ],
    [
      'llama.cpp',
      { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } },
      { code: '503', message: 'Loading model' },
    ],
    ['Ollama', { error: 'model not found' }, { message: 'model not found', code: null }],
    ['TGI', { error: 'full', error_type: 'overloaded' }, { message: 'full', type: 'overloaded' }],
    ['old vLLM', { object: 'error', message: 'm', code: 400 }, { message: 'm', code: '400' }],
    [
      'Mistral',
      {
        object: 'error',
        message: {
          detail: [{ type: 'extra_forbidden', loc: ['body', 'user'], msg: 'Extra inputs are not permitted' }],
        },
        type: 'invalid_request_error',
        code: null,
      },
      { message: 'Extra inputs are not permitted', param: 'user', code: 'extra_forbidden' },
    ],
    [
      'OpenRouter, from the server behind it',
      {
        error: {
          message: 'Provider returned error',
          code: 400,
          metadata: { raw: '{"error":{"message":"one image"}}' },
        },
      },
      { message: 'one image', code: '400' },
    ],
    [
      'OpenRouter, from a server without JSON',
      { error: { message: 'Provider returned error', code: 400, metadata: { raw: 'one image' } } },
      { message: 'one image', code: '400' },
    ],
    [
      'OpenRouter, with an HTML page',
      { error: { message: 'Provider returned error', code: 502, metadata: { raw: '<html>' } } },
      { message: 'Provider returned error', code: '502' },
    ],
    ['FastAPI text', { detail: 'Not Found' }, { message: 'Not Found' }],
    [
      'FastAPI list',
      { detail: [{ loc: ['body', 'messages', 0, 'name'], msg: 'Extra inputs', type: 'extra_forbidden' }] },
      { message: 'Extra inputs', param: 'messages[0].name', code: 'extra_forbidden' },
    ],
    [
      'Gemini, in a list',
      [{ error: { code: 400, message: 'Unknown name "x"', status: 'INVALID_ARGUMENT' } }],
      { message: 'Unknown name "x"', code: '400' },
    ],
    [
      "Cloudflare's AI gateway",
      { success: false, error: [{ code: 2005, message: 'Failed to get response from provider' }] },
      { message: 'Failed to get response from provider', code: '2005' },
    ],
    ['an empty list', [], { message: '' }],
    ['plain text', 'nope', { message: 'nope' }],
  ])('reads the shape of %s', (_name, body, expected) => {
    expect(readUpstreamError(body, true)).toMatchObject(expected)
  })

  it('finds no error in an answer', () => {
    for (const body of [{ choices: [], error: null }, { choices: [], error: '' }, { message: 'x' }, 'x', null, []]) {
      expect(readUpstreamError(body)).toBeNull()
    }
  })

  it('cuts every text to 2,000 characters before anything matches it', () => {
    const long = 'input token count'.repeat(40_000)
    const error = { message: long, type: long, param: long, code: long }
    for (const found of [
      readUpstreamError({ error }),
      readUpstreamError(long, true),
      readUpstreamError({ detail: long }, true),
    ])
      for (const part of Object.values(found!)) expect(part?.length ?? 0).toBeLessThanOrEqual(2_000)
    const behindRouter = { message: 'Provider returned error', metadata: { raw: long } }
    expect(readUpstreamError({ error: behindRouter })!.message).toHaveLength(2_000)
  })
})
