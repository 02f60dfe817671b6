// The names of attributes and metrics that are exported. Those of `genAi` and `genAiMetrics` are of the semantic
// conventions for generative AI: https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md
// and gen-ai-metrics.md at 002c8a6ea1c8a42b14a4527db83b3cabcded610a (1.42.0-dev; status: development). Those of
// `http`, `server` and `error` are stable: https://github.com/open-telemetry/semantic-conventions, v1.44.0.

export const genAi = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  conversation: 'gen_ai.conversation.id',
  requestModel: 'gen_ai.request.model',
  requestStream: 'gen_ai.request.stream',
  requestMaxTokens: 'gen_ai.request.max_tokens',
  requestTemperature: 'gen_ai.request.temperature',
  requestTopP: 'gen_ai.request.top_p',
  requestTopK: 'gen_ai.request.top_k',
  requestSeed: 'gen_ai.request.seed',
  requestFrequencyPenalty: 'gen_ai.request.frequency_penalty',
  requestPresencePenalty: 'gen_ai.request.presence_penalty',
  requestChoices: 'gen_ai.request.choice.count',
  responseId: 'gen_ai.response.id',
  responseModel: 'gen_ai.response.model',
  finishReasons: 'gen_ai.response.finish_reasons',
  timeToFirstChunk: 'gen_ai.response.time_to_first_chunk',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cacheReadTokens: 'gen_ai.usage.cache_read.input_tokens',
  cacheWriteTokens: 'gen_ai.usage.cache_creation.input_tokens',
  reasoningTokens: 'gen_ai.usage.reasoning.output_tokens',
  tokenType: 'gen_ai.token.type',
  inputMessages: 'gen_ai.input.messages',
  outputMessages: 'gen_ai.output.messages',
} as const

export const errorType = 'error.type'

export const http = {
  method: 'http.request.method',
  route: 'http.route',
  status: 'http.response.status_code',
} as const

export const server = { address: 'server.address', port: 'server.port' } as const

/** The gateway's own. Amounts are USD. */
export const own = {
  request: 'switchyard.request.id',
  customer: 'switchyard.customer.id',
  key: 'switchyard.key.id',
  label: 'switchyard.label',
  errorCode: 'switchyard.error.code',
  modelAsked: 'switchyard.model.asked',
  modelServed: 'switchyard.model.served',
  stream: 'switchyard.stream',
  tier: 'switchyard.tier',
  privacyMode: 'switchyard.privacy_mode',
  outcome: 'switchyard.outcome',
  choice: 'switchyard.choice.reason',
  candidates: 'switchyard.choice.candidates',
  attempts: 'switchyard.attempts',
  attempt: 'switchyard.attempt.number',
  attemptOutcome: 'switchyard.attempt.outcome',
  offer: 'switchyard.offer.id',
  endpoint: 'switchyard.endpoint.id',
  hoster: 'switchyard.hoster.id',
  providerKind: 'switchyard.provider.kind',
  held: 'switchyard.held_usd',
  cost: 'switchyard.cost_usd',
  upstreamCost: 'switchyard.upstream_cost_usd',
  writtenOff: 'switchyard.written_off_usd',
  inputTokens: 'switchyard.tokens.input',
  outputTokens: 'switchyard.tokens.output',
  cacheReadTokens: 'switchyard.tokens.cache_read',
  cacheWriteTokens: 'switchyard.tokens.cache_write',
  reasoningTokens: 'switchyard.tokens.reasoning',
} as const

/** The boundaries are those that the conventions ask for. */
export const genAiMetrics = {
  tokens: {
    name: 'gen_ai.client.token.usage',
    unit: '{token}',
    description: 'Number of input and output tokens used.',
    boundaries: [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864],
  },
  duration: {
    name: 'gen_ai.client.operation.duration',
    unit: 's',
    description: 'GenAI operation duration.',
    boundaries: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
  },
  firstChunk: {
    name: 'gen_ai.client.operation.time_to_first_chunk',
    unit: 's',
    description: 'Time to receive the first chunk of a stream.',
    boundaries: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
  },
} as const
