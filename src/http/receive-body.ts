import { ApiError } from '../base/domain/errors.ts'
import type { ByteAccount } from '../base/runtime/counted-memory.ts'
import type { GenerationRequest } from './generation-exchange.ts'

type BodyRequest = Pick<GenerationRequest, 'header' | 'readBody'>

/**
 * Reads the body of a JSON request; returns an empty buffer when there is none. Rejects with
 * `unsupported_media_type`, and with the errors of `readBody`.
 */
export function receiveBody(request: BodyRequest, limitBytes: number, memory: ByteAccount): Promise<Buffer> {
  const hasNoBody =
    request.header('transfer-encoding') === undefined && (request.header('content-length') ?? '0') === '0'
  const contentType = request.header('content-type') ?? (hasNoBody ? JSON_TYPE : '')
  if (!isJson(contentType)) {
    return Promise.reject(new ApiError('unsupported_media_type', { param: 'Content-Type' }))
  }
  const refusal = codingRefusal(request.header('content-encoding') ?? '') ?? charsetRefusal(contentType)
  return refusal === undefined ? request.readBody(limitBytes, memory) : Promise.reject(refusal)
}

const JSON_TYPE = 'application/json'

function isJson(contentType: string): boolean {
  return contentType === JSON_TYPE || /^application\/json\s*(;|$)/i.test(contentType)
}

function codingRefusal(encoding: string): ApiError | undefined {
  if (encoding === '' || encoding.toLowerCase() === 'identity') return undefined
  const message = `The Content-Encoding "${encoding.slice(0, 40)}" is not supported. Send the body uncompressed.`
  return new ApiError('unsupported_media_type', { param: 'Content-Encoding', message })
}

/** Refuses a charset other than UTF-8: decoding such a body would be a guess. */
function charsetRefusal(contentType: string): ApiError | undefined {
  if (contentType === JSON_TYPE) return undefined
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(contentType)?.[1]
  if (charset === undefined || /^utf-?8$/i.test(charset)) return undefined
  const message = `The charset "${charset.slice(0, 40)}" is not supported. Send the body in UTF-8.`
  return new ApiError('unsupported_media_type', { param: 'Content-Type', message })
}

/** The error for a body above the limit. */
export function bodyTooLarge(limitBytes: number): ApiError {
  const message = `The request body is larger than ${sizeText(limitBytes)}. Shorten it, or send images by URL.`
  return new ApiError('request_too_large', { message })
}

function sizeText(bytes: number): string {
  if (bytes % 0x100000 === 0) return `${bytes / 0x100000} MiB`
  return bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} bytes`
}
