/** The tests of an SDK that use the endpoints of a gateway. */
export interface Suite {
  readonly name: string
  readonly repository: string
  readonly commit: string
  /** The environment variable with the directory of a clone. */
  readonly variable: string
  /** Put before the paths of its requests. */
  readonly prefix: string
  readonly files: readonly string[]
  /** The models that its tests name. */
  readonly models: readonly string[]
  /** Tests that cannot pass, and what the failure says. */
  readonly explained: readonly { readonly tests: RegExp; readonly says: RegExp; readonly reason: string }[]
}

const openai: Suite = {
  name: 'openai-python',
  repository: 'https://github.com/openai/openai-python.git',
  commit: 'e43b422412a9e96c9cc5192c61fffbe2d7e04836',
  variable: 'OPENAI_PYTHON',
  prefix: '/v1',
  files: [
    'chat/test_completions.py',
    'test_completions.py',
    'test_responses.py',
    'test_embeddings.py',
    'test_models.py',
  ].map(file => `tests/api_resources/${file}`),
  models: ['gpt-3.5-turbo-instruct', 'gpt-4o-mini', 'gpt-5.1', 'gpt-5.4', 'gpt-5.6-sol', 'text-embedding-3-small'],
  explained: [
    {
      tests: /_(?:retrieve|delete|cancel|update|list)/,
      says: /No endpoint serves|accepts (?:POST|GET)/,
      reason: 'read, change or delete stored answers and tuned models: nothing is stored, so 404 or 405',
    },
    {
      tests: /_with_all_params/,
      says: /"(?:background|previous_response_id)" must be/,
      reason: 'send every field of responses: background and previous_response_id need stored answers, so 400',
    },
    {
      tests: /test_responses.*_(?:create|compact)/,
      says: /"(?:model|input)" is required/,
      reason: 'ask without a model or an input, which a stored prompt or answer would name: 400',
    },
    {
      tests: /chat\.test_completions.*_with_all_params/,
      says: /"max_completion_tokens" must be an integer from 1/,
      reason: 'send the placeholder max_completion_tokens: 0: 400, as at OpenAI',
    },
    {
      tests: /^test_completions.*_with_all_params/,
      says: /"echo" must be false/,
      reason: 'send echo: true: 400, because the answer has only generated text',
    },
    {
      tests: /test_embeddings.*(?:strict|aiohttp)/,
      says: /invalid for expected schema/,
      reason: 'take vectors only as numbers although their SDK asks for base64: OpenAI would fail them too',
    },
  ],
}

const anthropic: Suite = {
  name: 'anthropic-sdk-python',
  repository: 'https://github.com/anthropics/anthropic-sdk-python.git',
  commit: '009b035305e0724ce108ebd796935f91711fc6e1',
  variable: 'ANTHROPIC_SDK_PYTHON',
  prefix: '',
  files: ['test_messages.py', 'test_models.py', 'beta/test_messages.py', 'beta/test_models.py'].map(
    file => `tests/api_resources/${file}`,
  ),
  models: [
    ...['model_id', 'claude-opus-4-6', 'claude-sonnet-4-5', 'claude-sonnet-4-5-20250929', 'claude-sonnet-4-6'],
    // The SDK warns of these.
    ...['claude-1.3', 'claude-1.3-100k', 'claude-instant-1.1', 'claude-instant-1.1-100k', 'claude-instant-1.2'],
    ...['claude-2.0', 'claude-2.1', 'claude-3-sonnet-20240229', 'claude-3-opus-20240229', 'claude-3-7-sonnet-latest'],
    ...['claude-3-7-sonnet-20250219', 'claude-3-5-haiku-latest', 'claude-3-5-haiku-20241022', 'claude-opus-4-0'],
    ...['claude-opus-4-20250514', 'claude-sonnet-4-0', 'claude-sonnet-4-20250514', 'claude-mythos-preview'],
  ],
  explained: [],
}

export const suites: readonly Suite[] = [openai, anthropic]
