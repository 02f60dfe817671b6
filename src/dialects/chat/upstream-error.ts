import { UpstreamFailure } from '../../domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../runtime/json-object.ts'
import { keyPath } from '../../runtime/key-path.ts'
import { parseUpstreamJson } from '../json/parse-upstream-json.ts'

/** What an upstream said went wrong, in whichever of the known shapes it said it. Not yet safe to show. */
export interface UpstreamError {
  readonly message: string
  readonly type: string | null
  readonly param: string | null
  readonly code: string | null
}

const MESSAGE_CHARACTERS_MAX = 500
/** Soft hyphens, zero-width characters and marks of direction: between the letters of a key nobody sees them. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g

/**
 * Finds the error in a JSON body or stream event: `{error: {...}}`, `{error: "text"}`, vLLM's `{object: "error", message}`
 * and, when `anyShape` (the status already says that it is an error), also `{detail}`, `{message}`, plain text, and any of these in a list.
 * Null when there is none.
 */
export function readUpstreamError(body: unknown, anyShape = false): UpstreamError | null {
  // Gemini's OpenAI layer wraps its errors so (PromptFuzz issue 42).
  if (anyShape && Array.isArray(body) && isJsonObject(body[0])) return readUpstreamError(body[0], true)
  if (isJsonObject(body)) {
    // Cloudflare's AI gateway has a list in the object (cloudflare/ai issue 436).
    if (anyShape && Array.isArray(body.error) && isJsonObject(body.error[0])) return errorOf(body.error[0], null)
    if (isJsonObject(body.error)) return errorOf(body.error, body.error_type)
    if (typeof body.error === 'string' && body.error !== '') return errorOf({ message: body.error }, body.error_type)
    if (body.object === 'error') return errorOf(body, null)
    if (anyShape && typeof body.message === 'string') return errorOf(body, null)
    if (anyShape && body.detail !== undefined) return errorOfDetail(body.detail)
    if (body.error === true) return errorOf(body, null)
  }
  if (anyShape) return errorOf({ message: typeof body === 'string' ? body : '' }, null)
  return null
}

/**
 * Decides what an upstream's error means for the attempt. `status` is null for an error inside a 200 answer; then the
 * error's own code or type stands in for it.
 */
export function failureOfError(status: number | null, error: UpstreamError, retryAfterS?: number): UpstreamFailure {
  const effectiveStatus = status ?? statusOf(error)
  const summary = summaryOf(status, error)
  const said = safeMessage(error.message)
  switch (meaningOf(effectiveStatus, error, retryAfterS)) {
    case 'context_too_long':
      return rejected(summary, said, error, 'context_length_exceeded')
    case 'request_rejected':
      return rejected(summary, said, error, error.code)
    case 'busy':
      return new UpstreamFailure('busy', summary, { retryAfterS, upstreamMessage: said })
    case 'credential_rejected':
      return new UpstreamFailure('credential_rejected', summary, { upstreamMessage: said })
    case 'server_error':
      return new UpstreamFailure('server_error', summary, { upstreamMessage: said })
  }
}

/** The status, and the names that the upstream gave the error. */
function summaryOf(status: number | null, { type, code }: UpstreamError): string {
  const names = new Set(
    [type, code].filter(name => name !== null && name !== String(status) && /^[\w.-]{1,64}$/.test(name)),
  )
  return [status ?? '200 with an error', ...names].join(' ')
}

type Meaning = 'context_too_long' | 'request_rejected' | 'busy' | 'credential_rejected' | 'server_error'

function meaningOf(status: number, error: UpstreamError, retryAfterS: number | undefined): Meaning {
  if (isAboutOurAccount(error)) return 'credential_rejected'
  if (isForbiddenContent(error) || isUnfitConversation(error)) return 'request_rejected'
  // Groq, to a request above what our account may use in a minute: another server has another limit (openclaw issue 147644).
  if (status === 413 && error.code === 'rate_limit_exceeded') return 'busy'
  // Together answers 403 to a prompt that is too long.
  if ([400, 403, 413, 422].includes(status) && isContextTooLong(error)) return 'context_too_long'
  // The endpoint lacks the model it was listed with: its fault, whatever the status.
  if (isModelMissing(error)) return 'server_error'
  // Cloudflare's AI gateway, with 400: the server behind it gave no answer.
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
/** At the start alone: further on it may be the caller's own words. */
const accountMessage = new RegExp(
  [
    '^(api.?key (not valid|invalid|expired)|(invalid|incorrect) api.?key|user location is not supported|gemini api free tier is not available',
    'your credit balance is too low|you have reached your specified api usage limits|access to anthropic models is not allowed',
    'your organization must be verified|insufficient balance|余额不足)',
  ].join('|'),
  'i',
)

/**
 * Our own account there is empty, our key is wrong, or we are where it does not serve: OpenAI and Zhipu say so with 429, Gemini, Anthropic (claude-code
 * issues 66314 and 38035, llmgateway pull request 4012), DashScope (spring-ai-alibaba issue 1146) and, of an organization that may not stream, OpenAI
 * (LibreChat issue 6926) with 400.
 */
function isAboutOurAccount(error: UpstreamError): boolean {
  return isNamed(error, accountCodes) || accountMessage.test(error.message)
}

const contentCodes = new Set<string | null>(['content_filter', 'content_policy_violation', 'sensitive_words_detected'])

/**
 * What the caller wrote, and not who we are: xAI (llmgateway pull request 1785) and OpenRouter say so with 403, new-api with 500 (issue 5601). One such
 * prompt would eject server after server for everybody.
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
 * The model's template takes no conversation like this one, and llama.cpp says so with 500: arguments of an earlier tool call were cut off (issue 25510),
 * roles do not alternate (issue 19851, picoclaw issue 207). Agents repeat it and repeat it (OpenHands issue 13949), and would eject the server for everybody.
 */
function isUnfitConversation({ message }: UpstreamError): boolean {
  return unfitConversation.test(message)
}

const modelCodes = new Set<string | null>(['model_not_found', 'model_decommissioned', 'invalid_model'])

/**
 * As OpenAI, Groq (openfang issue 60), Mistral (langchaingo issue 1233), DeepSeek (easy-dataset issue 9), OpenRouter and LiteLLM (continue issues
 * 10758 and 11177) say it.
 */
function isModelMissing(error: UpstreamError): boolean {
  return (
    isNamed(error, modelCodes) ||
    /^(model not exist$|(\/chat\/completions: )?invalid model name passed in|\S{1,256} is not a valid model id)/i.test(
      error.message,
    )
  )
}

/** Servers disagree on whether the name of an error is its code or its type. */
function isNamed({ code, type }: UpstreamError, names: ReadonlySet<string | null>): boolean {
  return names.has(code) || names.has(type)
}

/**
 * As Anthropic, OpenAI, vLLM, SGLang, llama.cpp, LM Studio and Groq say it, and then Gemini, xAI, Moonshot, Poolside, Bedrock, TGI and Zhipu. Agents shorten their
 * conversation when they are told so, and repeat it otherwise (pi issue 4943).
 */
const contextTooLong = new RegExp(
  [
    'context (length|window|size|limit)|maximum context|too many (input )?tokens|prompt (is )?too long|reduce the length of the messages',
    'input token count.*exceeds the maximum|maximum prompt length|exceeded model token limit|maximum allowed input length',
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

function statusOf(error: UpstreamError): number {
  const code = Number(error.code)
  if (Number.isInteger(code) && code >= 400 && code <= 599) return code
  const named = `${error.type ?? ''} ${error.code ?? ''}`
  if (/rate_limit|overloaded|too_many_requests/.test(named)) return 429
  if (/authentication|permission|billing/.test(named)) return 401
  if (/invalid_request|invalid_value|context_length|bad_?request|exceed_context/i.test(named)) return 400
  return 500
}

function rejected(summary: string, said: string, error: UpstreamError, code: string | null): UpstreamFailure {
  const param = error.param !== null && /^[\w.[\]-]{1,100}$/.test(error.param) ? error.param : null
  return new UpstreamFailure('request_rejected', summary, {
    upstreamMessage: said,
    rejection: { message: said, param, code },
  })
}

/**
 * An upstream's words made fit to show to a customer: no address, key, path or account of the upstream, no control characters,
 * at most 500 characters. Long mixed runs are taken for secrets: a lost identifier is cheaper than a leaked one.
 */
export function safeMessage(message: string): string {
  const plain = message
    .slice(0, MESSAGE_CHARACTERS_MAX * 4)
    // Written as `https%3A%2F%2F`, `https%253A` or `https:\/\/` an address is one all the same.
    .replace(/%(?:25)*([0-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll('\\/', '/')
    .replace(INVISIBLE, '')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must go
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\s]+/g, ' ')
    .replace(/\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>)]+/gi, '[address]')
    .replace(/\bbearer\s+\S+/gi, '[key]')
    .replace(/\b(sk|pk|key|gsk|xai|hf)[-_][\w*-]{6,}/gi, '[key]')
    .replace(/\b(org|proj)[-_](?=\w*\d)\w{12,}/gi, '[account]')
    .replace(/(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(\.[\w-]{1,63})+/g, '[address]')
    .replace(/(?<![\w.-])([\w-]{1,63}\.)+(internal|local|lan|svc|consul)(:\d{1,5})?(?![\w.-]*\w)/gi, '[address]')
    .replace(/(?<![\w.:])[\da-f:]*:[\da-f:.]*(?!\w)/gi, withoutAddress)
    .replace(/\[\[address\](%\w+)?\](:\d+)?/g, '[address]')
    .replace(/\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b/g, '[address]')
    .replace(/\b[\w-]+(\.[\w-]+)*:\d{2,5}\b/g, '[address]')
    .replace(/(^|[\s"'(])(\/[\w.@-]+){2,}/g, '$1[path]')
    .replace(/\b(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])[\w+/-]{32,}={0,2}/gi, '[removed]')
    // `s k - a b c 1 2 3`, `s.k.-.a.b.c`: single characters with the same sign between them, eight and more.
    .replace(/(?<![a-z0-9])\S([^a-z0-9])(?!\1)\S(?:\1(?!\1)\S){6,}(?![a-z0-9])/gi, '[removed]')
    .trim()
  return plain.length > MESSAGE_CHARACTERS_MAX ? `${plain.slice(0, MESSAGE_CHARACTERS_MAX - 1)}…` : plain
}

/** Of what may be an IPv6 address, with a full stop or a colon behind it. */
function withoutAddress(run: string): string {
  if (isIPv6(run)) return '[address]'
  return isIPv6(run.slice(0, -1)) ? `[address]${run.slice(-1)}` : run
}

/** What the URL parser takes for one: node:net is not for here. */
function isIPv6(text: string): boolean {
  return URL.canParse(`http://[${text}]`)
}

function errorOf(source: JsonObject, outerType: unknown): UpstreamError {
  // Mistral: FastAPI's details inside of the message (openai-compatible-conversation issue 26).
  if (isJsonObject(source.message) && source.message.detail !== undefined) return errorOfDetail(source.message.detail)
  return {
    message: wordsBehind(source) ?? text(source.message) ?? text(source.detail) ?? text(source.code) ?? '',
    type: text(source.type) ?? text(outerType),
    param: text(source.param),
    code: text(source.code),
  }
}

/** Of the server behind OpenRouter, whose own message says no more than that there are some (OmniRoute issue 3044, LiteLLM issue 28063). */
function wordsBehind({ message, metadata }: JsonObject): string | null {
  if (message !== 'Provider returned error' || !isJsonObject(metadata)) return null
  const { raw } = metadata
  if (typeof raw !== 'string') return readUpstreamError(raw, true)?.message || null
  try {
    return readUpstreamError(parseUpstreamJson(raw), true)?.message || null
  } catch {
    return raw.trimStart().startsWith('<') ? null : raw || null
  }
}

/** FastAPI: a text, or a list of `{loc: ["body", "messages", 0, "role"], msg}`. */
function errorOfDetail(detail: unknown): UpstreamError {
  if (!Array.isArray(detail)) return errorOf(isJsonObject(detail) ? detail : { message: detail }, null)
  const first: unknown = detail[0]
  if (!isJsonObject(first)) return errorOf({ message: first }, null)
  const where = Array.isArray(first.loc) ? first.loc.filter(step => isStep(step) && step !== 'body') : []
  const param = keyPath(where)
  return { message: text(first.msg) ?? '', type: null, param: param === '' ? null : param, code: text(first.type) }
}

function isStep(step: unknown): step is string | number {
  return typeof step === 'string' || typeof step === 'number'
}

/** Codes are numbers at llama.cpp, vLLM and OpenRouter. */
function text(value: unknown): string | null {
  if (typeof value === 'string') return value
  return typeof value === 'number' ? String(value) : null
}
