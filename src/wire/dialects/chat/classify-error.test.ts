import { describe, expect, it } from 'vitest'
import { classifyError } from './classify-error.ts'

describe('classifyError', () => {
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
    // Such messages quote the caller. Treating them as a wrong key would eject every server.
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
    expect(classifyError(status, error(fields), retryAfterS)).toMatchObject({ outcome })
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
    expect(classifyError(400, error({ message })).rejection?.code).toBe('context_length_exceeded')
  })

  it('passes on a parameter only if it looks like one', () => {
    expect(classifyError(400, error({ param: 'messages[0].role' })).rejection?.param).toBe('messages[0].role')
    expect(classifyError(400, error({ param: 'http://10.0.0.1/x' })).rejection?.param).toBeNull()
  })
})
