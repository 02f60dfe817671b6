import { describe, expect, it } from 'vitest'
import { failureOfError, readUpstreamError, safeMessage } from './upstream-error.ts'

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
      'OpenRouter, of the server behind it',
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
      'OpenRouter, of a server without JSON',
      { error: { message: 'Provider returned error', code: 400, metadata: { raw: 'one image' } } },
      { message: 'one image', code: '400' },
    ],
    [
      'OpenRouter, of a page',
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

  it('sees no error in an answer', () => {
    for (const body of [{ choices: [], error: null }, { choices: [], error: '' }, { message: 'x' }, 'x', null, []]) {
      expect(readUpstreamError(body)).toBeNull()
    }
  })
})

describe('failureOfError', () => {
  const error = (fields: object) => ({ message: '', type: null, param: null, code: null, ...fields })

  it.each<[status: number | null, fields: object, retryAfterS: number | undefined, outcome: string]>([
    [400, {}, undefined, 'request_rejected'],
    [413, {}, undefined, 'request_rejected'],
    [413, { code: 'rate_limit_exceeded', message: 'tokens per minute (TPM): Limit 6000' }, undefined, 'busy'],
    [422, {}, undefined, 'request_rejected'],
    [401, {}, undefined, 'credential_rejected'],
    [402, {}, undefined, 'credential_rejected'],
    [403, {}, undefined, 'credential_rejected'],
    [404, {}, undefined, 'server_error'],
    [400, { code: 'model_not_found' }, undefined, 'server_error'],
    [408, {}, undefined, 'server_error'],
    [429, {}, undefined, 'busy'],
    [529, {}, undefined, 'busy'],
    [503, {}, 3, 'busy'],
    [503, {}, undefined, 'server_error'],
    [500, {}, undefined, 'server_error'],
    [504, {}, undefined, 'server_error'],
    [429, { code: 'insufficient_quota' }, undefined, 'credential_rejected'],
    [400, { message: 'API key not valid. Please pass a valid API key.' }, undefined, 'credential_rejected'],
    [400, { message: 'User location is not supported for the API use.' }, undefined, 'credential_rejected'],
    [
      400,
      { type: 'invalid_request_error', message: 'Your credit balance is too low to access the Anthropic API.' },
      undefined,
      'credential_rejected',
    ],
    [
      400,
      { message: 'Gemini API free tier is not available in your country. Please enable billing on your project.' },
      undefined,
      'credential_rejected',
    ],
    [400, { message: 'You have reached your specified API usage limits.' }, undefined, 'credential_rejected'],
    [400, { message: 'Access to Anthropic models is not allowed for this account' }, undefined, 'credential_rejected'],
    [
      400,
      { param: 'stream', message: 'Your organization must be verified to stream this model.' },
      undefined,
      'credential_rejected',
    ],
    [400, { code: 'Arrearage', type: 'Arrearage' }, undefined, 'credential_rejected'],
    [429, { code: 'billing_not_active' }, undefined, 'credential_rejected'],
    [429, { type: 'billing_not_active' }, undefined, 'credential_rejected'],
    [429, { code: '1113', message: 'Insufficient balance or no resource package.' }, undefined, 'credential_rejected'],
    [429, { code: '1113', message: '余额不足或无可用资源包,请充值。' }, undefined, 'credential_rejected'],
    [null, { code: '1113', message: 'Insufficient balance or no resource package.' }, 3, 'credential_rejected'],
    [400, { type: 'invalid_request_error', code: 'model_decommissioned' }, undefined, 'server_error'],
    [400, { type: 'invalid_model', code: '1500' }, undefined, 'server_error'],
    [400, { code: 'invalid_request_error', message: 'Model Not Exist' }, undefined, 'server_error'],
    [400, { message: 'deepseek/deepseek-coder is not a valid model ID' }, undefined, 'server_error'],
    [400, { message: '/chat/completions: Invalid model name passed in model=x.' }, undefined, 'server_error'],
    // The caller's own words come back in such messages: read as a wrong key, they would eject every server.
    [
      400,
      { message: "Invalid value: 'invalid api key'. Supported values are: 'none'." },
      undefined,
      'request_rejected',
    ],
    [403, { message: 'Content violates usage guidelines. Team: t, API key ID: k' }, undefined, 'request_rejected'],
    [403, { message: 'a/b requires moderation on C. Your input was flagged.' }, undefined, 'request_rejected'],
    [403, { code: 'content_policy_violation' }, undefined, 'request_rejected'],
    [500, { code: 'sensitive_words_detected' }, undefined, 'request_rejected'],
    [
      500,
      {
        type: 'server_error',
        message: 'Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]',
      },
      undefined,
      'request_rejected',
    ],
    [
      500,
      {
        type: 'server_error',
        message:
          "\n------------\nWhile executing CallExpression at line 47, column 32 in source:\n...== 0) %}↵ {{- raise_exception('After\n   ^\nError: Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles.",
      },
      undefined,
      'request_rejected',
    ],
    [500, { message: 'Conversation roles must alternate user/assistant at row 1' }, undefined, 'request_rejected'],
    [
      500,
      {
        message:
          '\n------------\nWhile executing CallExpression at line 1, column 3 in source:\n...\nError: Callee is not a function',
      },
      undefined,
      'server_error',
    ],
    [500, { message: 'out of memory: conversation roles must alternate' }, undefined, 'server_error'],
    [400, { code: '2005', message: 'Failed to get response from provider' }, undefined, 'server_error'],
    [400, { message: "Invalid value: 'insufficient balance'." }, undefined, 'request_rejected'],
    [400, { message: "Invalid value: 'x is not a valid model ID'." }, undefined, 'request_rejected'],
    [403, { message: 'prompt + max_tokens exceed the maximum context length' }, undefined, 'request_rejected'],
    [null, { code: '502' }, undefined, 'server_error'],
    [null, { type: 'overloaded_error' }, undefined, 'busy'],
    [null, { type: 'invalid_request_error' }, undefined, 'request_rejected'],
    [null, {}, undefined, 'server_error'],
  ])('%s %o (retry after %s) means %s', (status, fields, retryAfterS, outcome) => {
    expect(failureOfError(status, error(fields), retryAfterS)).toMatchObject({ outcome })
  })

  it.each([
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    'the request exceeds the available context size, try increasing it',
    'prompt is too long: 210000 tokens > 200000 maximum',
    'Prompt too long: 5152 tokens exceeds max_seq_len 2048',
    'The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).',
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    'Invalid request: Your request exceeded model token limit: 8192',
    'Input length 131393 exceeds the maximum allowed input length of 131040 tokens.',
    'Input is too long for requested model.',
    'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens',
    'Please reduce the length of the messages or completion.',
    'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000',
    'Prompt exceeds max length',
  ])('recognises a context that is too long: %s', message => {
    expect(failureOfError(400, error({ message })).rejection?.code).toBe('context_length_exceeded')
  })

  it('hands on a parameter only if it looks like one', () => {
    expect(failureOfError(400, error({ param: 'messages[0].role' })).rejection?.param).toBe('messages[0].role')
    expect(failureOfError(400, error({ param: 'http://10.0.0.1/x' })).rejection?.param).toBeNull()
  })
})

describe('safeMessage', () => {
  it.each([
    ['see https://internal.example/v1?key=abc for help', 'see [address] for help'],
    ['connect to 10.0.0.5:8000 failed', 'connect to [address] failed'],
    ['connect to gpu-7.cluster.local:8000 failed', 'connect to [address] failed'],
    ['dial tcp [::1]:11434: connect: refused', 'dial tcp [address]: connect: refused'],
    ['gpu-7.cluster.local and gpu-7.internal, no', '[address] and [address], no'],
    ['use threading.localhost, messages.0.local_id', 'use threading.localhost, messages.0.local_id'],
    ['Organization org-AbC123dEf456GhI789 of proj_a1b2c3d4e5f6g7h8', 'Organization [account] of [account]'],
    ['org-mode, project_id and org_name_of_something', 'org-mode, project_id and org_name_of_something'],
    ['write to billing+ops@acme.example or a@b', 'write to [address] or a@b'],
    ['connect fd00:12::5.', 'connect [address].'],
    ['at fe80::a%eth0, ::ffff:10.0.0.5: no', 'at [address]%eth0, [address]: no'],
    ['std::vector at messages[0].content: 1:2', 'std::vector at messages[0].content: 1:2'],
    ['Incorrect key provided: sk-proj-abc123def456', 'Incorrect key provided: [key]'],
    ['Authorization: Bearer abcdef', 'Authorization: [key]'],
    ['File "/opt/vllm/engine/core.py" line 3', 'File "[path]" line 3'],
    ['token 0123456789abcdef0123456789abcdef', 'token [removed]'],
    ['see https%3A%2F%2Finternal.example%2Fv1%3Fkey%3Dabc now', 'see [address] now'],
    ['see https%253A%252f%252Finternal.example%252Fv1 now', 'see [address] now'],
    ['see https:\\/\\/internal.example\\/v1 now', 'see [address] now'],
    ['no %2Fsrv%2Fmodels%2Fx.gguf', 'no [path]'],
    ['key %73k-proj-abc123def456', 'key [key]'],
    ['the key s k - p r o j - a b c 1 2 3 is wrong', 'the key [removed] is wrong'],
    ['the key s  k  -  p r o\nj - a b c is wrong', 'the key [removed] is wrong'],
    ['the key s.k.-.p.r.o.j.1.2.3', 'the key [removed]'],
    ['the key s-k-p-r-o-j-1-2-3, wrong', 'the key [removed], wrong'],
    ['s\u200bk\u200b-proj-abc123\u00addef456', '[key]'],
    ['100%25 sure, 50% off, a b c d and ------------------', '100% sure, 50% off, a b c d and ------------------'],
    ['a\u0000b\r\nc\u001b[31md', 'a b c [31md'],
    [
      "Unsupported parameter: 'max_tokens' is not supported with this model.",
      "Unsupported parameter: 'max_tokens' is not supported with this model.",
    ],
    [
      "Invalid value for 'messages[0].content': expected a string, got 3.",
      "Invalid value for 'messages[0].content': expected a string, got 3.",
    ],
  ])('%j becomes %j', (message, safe) => {
    expect(safeMessage(message)).toBe(safe)
  })

  it('is short, and quick on hostile input', () => {
    expect(safeMessage('word '.repeat(100_000)).length).toBeLessThanOrEqual(500)
    for (const piece of [
      'a',
      '/',
      'a.',
      'a@',
      'a@a.',
      'org-',
      'org-1',
      '.local',
      'sk-',
      '1.',
      '\n',
      'http://',
      '-',
      'a ',
      '%25',
      '- ',
      'a b',
      ':',
      '[a:',
    ])
      safeMessage(piece.repeat(100_000))
  })
})
