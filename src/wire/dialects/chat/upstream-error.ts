import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { keyPath } from '../../../base/runtime/key-path.ts'
import { parseUpstreamJson } from '../json/parse-json.ts'

/**
 * An error that an upstream reported, whatever its shape. `message` may contain secrets until `safeMessage`
 * cleans it.
 */
export interface UpstreamError {
  readonly message: string
  readonly type: string | null
  readonly param: string | null
  readonly code: string | null
}

/**
 * Finds the error in a JSON body or stream event: `{error: {...}}`, `{error: "text"}` or, from vLLM,
 * `{object: "error", message}`. `anyShape` is for bodies with an error status: then `{detail}`, `{message}`,
 * plain text, and any of these in a list count too. Returns null if there is no error.
 */
export function readUpstreamError(body: unknown, anyShape: true): UpstreamError
export function readUpstreamError(body: unknown, anyShape?: boolean): UpstreamError | null
export function readUpstreamError(body: unknown, anyShape = false): UpstreamError | null {
  // Gemini's OpenAI layer wraps its errors in a list (PromptFuzz issue 42).
  if (anyShape && Array.isArray(body) && isJsonObject(body[0])) return readUpstreamError(body[0], true)
  if (isJsonObject(body)) {
    // Cloudflare's AI gateway puts a list into `error` (cloudflare/ai issue 436).
    if (anyShape && Array.isArray(body.error) && isJsonObject(body.error[0]))
      return readErrorObject(body.error[0], null)
    if (isJsonObject(body.error)) return readErrorObject(body.error, body.error_type)
    if (typeof body.error === 'string' && body.error !== '')
      return readErrorObject({ message: body.error }, body.error_type)
    if (body.object === 'error') return readErrorObject(body, null)
    if (anyShape && typeof body.message === 'string') return readErrorObject(body, null)
    if (anyShape && body.detail !== undefined) return readErrorDetail(body.detail)
    if (body.error === true) return readErrorObject(body, null)
  }
  if (anyShape) return readErrorObject({ message: typeof body === 'string' ? body : '' }, null)
  return null
}

function readErrorObject(source: JsonObject, outerType: unknown): UpstreamError {
  // Mistral puts FastAPI's details into the message (openai-compatible-conversation issue 26).
  if (isJsonObject(source.message) && source.message.detail !== undefined) return readErrorDetail(source.message.detail)
  return {
    message: messageBehindRouter(source) ?? text(source.message) ?? text(source.detail) ?? text(source.code) ?? '',
    type: text(source.type) ?? text(outerType),
    param: text(source.param),
    code: text(source.code),
  }
}

/**
 * Returns the message of the server behind OpenRouter. OpenRouter's own message says only that there was an
 * error (OmniRoute issue 3044, LiteLLM issue 28063). Null if there is none.
 */
function messageBehindRouter({ message, metadata }: JsonObject): string | null {
  if (message !== 'Provider returned error' || !isJsonObject(metadata)) return null
  const { raw } = metadata
  if (typeof raw !== 'string') return readUpstreamError(raw, true)?.message || null
  try {
    return readUpstreamError(parseUpstreamJson(raw), true)?.message || null
  } catch {
    return raw.trimStart().startsWith('<') ? null : text(raw) || null
  }
}

/** FastAPI sends a string or a list of `{loc: ["body", "messages", 0, "role"], msg}`. */
function readErrorDetail(detail: unknown): UpstreamError {
  if (!Array.isArray(detail)) return readErrorObject(isJsonObject(detail) ? detail : { message: detail }, null)
  const first: unknown = detail[0]
  if (!isJsonObject(first)) return readErrorObject({ message: first }, null)
  const where = Array.isArray(first.loc) ? first.loc.filter(step => isStep(step) && step !== 'body') : []
  const param = keyPath(where)
  return { message: text(first.msg) ?? '', type: null, param: param === '' ? null : param, code: text(first.type) }
}

function isStep(step: unknown): step is string | number {
  return typeof step === 'string' || typeof step === 'number'
}

/**
 * The longest text, in UTF-16 units, that is matched against patterns. Without the limit, `input token count`
 * repeated to 600 KiB blocked the event loop for 8.6 s.
 */
const TEXT_UNITS_MAX = 2_000

/** llama.cpp, vLLM and OpenRouter send codes as numbers. */
function text(value: unknown): string | null {
  if (typeof value === 'string') return value.slice(0, TEXT_UNITS_MAX)
  return typeof value === 'number' ? String(value) : null
}
