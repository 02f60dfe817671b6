import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { safeMessage } from './safe-message.ts'
import type { UpstreamError } from './upstream-error.ts'

/**
 * Decides what an upstream's error means for the attempt. `status` is null for an error inside a 200 answer;
 * the error's own code or type then determines the status.
 */
export function classifyError(status: number | null, error: UpstreamError, retryAfterS?: number): UpstreamFailure {
  const effectiveStatus = status ?? impliedStatus(error)
  const summary = summarise(status, error)
  const upstreamMessage = safeMessage(error.message)
  switch (readMeaning(effectiveStatus, error, retryAfterS)) {
    case 'context_too_long':
      return rejected(summary, upstreamMessage, error, 'context_length_exceeded')
    case 'request_rejected':
      return rejected(summary, upstreamMessage, error, error.code)
    case 'busy':
      return new UpstreamFailure('busy', summary, { retryAfterS, status, upstreamMessage })
    case 'credential_rejected':
      return new UpstreamFailure('credential_rejected', summary, { status, upstreamMessage })
    case 'server_error':
      return new UpstreamFailure('server_error', summary, { status, upstreamMessage })
  }
}

/**
 * Returns the status and the names that the upstream gave the error. The result is logged, so it must not
 * quote the message.
 */
function summarise(status: number | null, { type, code }: UpstreamError): string {
  const names = new Set(
    [type, code].filter(name => name !== null && name !== String(status) && /^[\w.-]{1,64}$/.test(name)),
  )
  return [status ?? '200 with an error', ...names].join(' ')
}

type Meaning = 'context_too_long' | 'request_rejected' | 'busy' | 'credential_rejected' | 'server_error'

function readMeaning(status: number, error: UpstreamError, retryAfterS: number | undefined): Meaning {
  if (isAccountProblem(error)) return 'credential_rejected'
  if (isForbiddenContent(error) || isUnfitConversation(error)) return 'request_rejected'
  // Groq: the request exceeds our account's tokens per minute. Another server has another limit (openclaw
  // issue 147644).
  if (status === 413 && error.code === 'rate_limit_exceeded') return 'busy'
  // Together answers 403 to a prompt that is too long.
  if ([400, 403, 413, 422].includes(status) && isContextTooLong(error)) return 'context_too_long'
  // The endpoint lacks a model that it is listed with. That is its fault, whatever the status.
  if (isModelMissing(error)) return 'server_error'
  // Cloudflare's AI gateway sends this with 400 when the server behind it gave no answer.
  if (/^failed to get response from provider/i.test(error.message)) return 'server_error'
  if (status === 401 || status === 402 || status === 403) return 'credential_rejected'
  if (status === 429 || status === 529 || (status === 503 && retryAfterS !== undefined)) return 'busy'
  if (status === 400 || status === 413 || status === 422) return 'request_rejected'
  return 'server_error'
}

const accountCodes = new Set<string | null>([
  'insufficient_quota',
  'billing_not_active',
  'Arrearage',
  'invalid_api_key',
])
/** Matches only at the start: later parts of the text may quote the caller. */
const accountMessage = new RegExp(
  [
    '^(api.?key (not valid|invalid|expired)|(invalid|incorrect) api.?key|user location is not supported|gemini api free tier is not available',
    'your credit balance is too low|you have reached your specified api usage limits|access to anthropic models is not allowed',
    'your organization must be verified|insufficient balance|余额不足)',
  ].join('|'),
  'i',
)

/**
 * True if our account at the upstream is out of credit, our key is wrong, or the upstream does not serve our
 * region. OpenAI and Zhipu report this with 429; Gemini, Anthropic (claude-code issues 66314 and 38035,
 * llmgateway pull request 4012), DashScope (spring-ai-alibaba issue 1146) and, for an organisation that may
 * not stream, OpenAI (LibreChat issue 6926) with 400.
 */
function isAccountProblem(error: UpstreamError): boolean {
  return isNamed(error, accountCodes) || accountMessage.test(error.message)
}

const contentCodes = new Set<string | null>(['content_filter', 'content_policy_violation', 'sensitive_words_detected'])

/**
 * True if the upstream refused the content of the prompt, not our account: xAI (llmgateway pull request 1785)
 * and OpenRouter report this with 403, new-api with 500 (issue 5601). Otherwise one such prompt would eject
 * server after server for all customers.
 */
function isForbiddenContent(error: UpstreamError): boolean {
  return (
    isNamed(error, contentCodes) ||
    /^(content violates usage guidelines|\S{1,256} requires moderation )/i.test(error.message)
  )
}

const unfitConversation = new RegExp(
  [
    '^(failed to parse tool call arguments as json|(after the optional system message, )?conversation roles must alternate',
    '\\s*-{4,}\\s+while executing \\w+ at line \\d+, column \\d+ in source:[^]*\\nerror: jinja exception: )',
  ].join('|'),
  'i',
)

/**
 * True if the model's template cannot render this conversation, which llama.cpp reports with 500: the
 * arguments of an earlier tool call were cut off (issue 25510), or roles do not alternate (issue 19851,
 * picoclaw issue 207). Agents repeat such a request (OpenHands issue 13949) and would eject the server for
 * all customers.
 */
function isUnfitConversation({ message }: UpstreamError): boolean {
  return unfitConversation.test(message)
}

const modelCodes = new Set<string | null>(['model_not_found', 'model_decommissioned', 'invalid_model'])

/**
 * The error texts come from OpenAI, Groq (openfang issue 60), Mistral (langchaingo issue 1233), DeepSeek
 * (easy-dataset issue 9), OpenRouter, LiteLLM (continue issues 10758 and 11177) and Bedrock.
 */
function isModelMissing(error: UpstreamError): boolean {
  return (
    isNamed(error, modelCodes) ||
    /^(model not exist$|(\/chat\/completions: )?invalid model name passed in|the provided model identifier is invalid|invocation of model id |\S{1,256} is not a valid model id)/i.test(
      error.message,
    )
  )
}

/** Servers disagree on whether the name of an error is its code or its type. */
function isNamed({ code, type }: UpstreamError, names: ReadonlySet<string | null>): boolean {
  return names.has(code) || names.has(type)
}

/**
 * The error texts come from Anthropic, OpenAI, vLLM, SGLang, llama.cpp, LM Studio, Groq, Gemini, xAI,
 * Moonshot, Poolside, Bedrock, TGI and Zhipu. Agents shorten their conversation after this error, and repeat
 * the request after any other (pi issue 4943).
 */
const contextTooLong = new RegExp(
  [
    'context (length|window|size|limit)|maximum context|too many (input )?tokens|prompt (is )?too long|reduce the length of the messages',
    'input token count.{0,200}exceeds the maximum|maximum prompt length|exceeded model token limit|maximum allowed input length',
    'input is too long for|prompt exceeds max length|`inputs` tokens \\+ `max_new_tokens` must be',
  ].join('|'),
  'i',
)

function isContextTooLong(error: UpstreamError): boolean {
  return (
    error.code === 'context_length_exceeded' ||
    error.type === 'exceed_context_size_error' ||
    contextTooLong.test(error.message)
  )
}

function impliedStatus(error: UpstreamError): number {
  const code = Number(error.code)
  if (Number.isInteger(code) && code >= 400 && code <= 599) return code
  const named = `${error.type ?? ''} ${error.code ?? ''}`
  if (/rate_limit|overloaded|too_many_requests/.test(named)) return 429
  if (/authentication|permission|billing/.test(named)) return 401
  if (/invalid_request|invalid_value|context_length|bad_?request|exceed_context/i.test(named)) return 400
  return 500
}

function rejected(
  summary: string,
  upstreamMessage: string,
  error: UpstreamError,
  code: string | null,
): UpstreamFailure {
  const param = error.param !== null && /^[\w.[\]-]{1,100}$/.test(error.param) ? error.param : null
  return new UpstreamFailure('request_rejected', summary, {
    upstreamMessage,
    rejection: { message: upstreamMessage, param, code },
  })
}
