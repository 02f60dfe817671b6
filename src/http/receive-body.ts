import type { IncomingMessage } from 'node:http'
import { ApiError } from '../domain/errors.ts'
import type { WholeRequest } from './plain/whole-request.ts'

/**
 * The body of a JSON request; empty when there is none. Rejects with `unsupported_media_type`, with `request_too_large` as soon as
 * that is certain (the rest is not read), and with `invalid_json` when the body breaks off.
 */
export function receiveBody(request: IncomingMessage | WholeRequest, limitBytes: number): Promise<Buffer> {
  const { headers } = request
  const isWithoutBody = headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0'
  if (!isJson(headers['content-type'] ?? (isWithoutBody ? JSON_TYPE : ''))) {
    return Promise.reject(new ApiError('unsupported_media_type', { param: 'Content-Type' }))
  }
  const unread = unreadCoding(headers)
  if (unread !== undefined) return Promise.reject(unread)
  if (Number(headers['content-length']) > limitBytes) return Promise.reject(tooLarge(limitBytes))
  if ('body' in request) {
    const body = request.body!
    // The request lives as long as its answer.
    request.body = null
    return Promise.resolve(body)
  }
  return new Promise((resolve, reject) => {
    let pieces: Buffer[] = []
    let bytes = 0
    request.on('data', (piece: Buffer) => {
      bytes += piece.length
      if (bytes <= limitBytes) pieces.push(piece)
      else reject(tooLarge(limitBytes))
    })
    request.on('end', () => {
      resolve(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces))
      // The request, and with it this listener, lives as long as its answer, which may be a long stream.
      pieces = []
    })
    const breakOff = () => reject(new ApiError('invalid_json', { message: 'The body broke off. Send it whole.' }))
    request.on('error', breakOff)
    // It may have broken off before.
    if (request.destroyed) breakOff()
  })
}

const JSON_TYPE = 'application/json'

function isJson(contentType: string): boolean {
  return contentType === JSON_TYPE || /^application\/json\s*(;|$)/i.test(contentType)
}

function tooLarge(limitBytes: number): ApiError {
  const message = `The request body is larger than ${sizeText(limitBytes)}. Send less, or images by URL.`
  return new ApiError('request_too_large', { message })
}

function sizeText(bytes: number): string {
  if (bytes % 0x100000 === 0) return `${bytes / 0x100000} MiB`
  return bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} bytes`
}

/** Bytes that say of themselves that they are not plain UTF-8: what they are taken for would be a guess. */
function unreadCoding(headers: WholeRequest['headers'] | IncomingMessage['headers']): ApiError | undefined {
  const encoding = headers['content-encoding'] ?? ''
  if (encoding !== '' && encoding.toLowerCase() !== 'identity') {
    const message = `The Content-Encoding "${encoding.slice(0, 40)}" is not supported. Send the body as it is.`
    return new ApiError('unsupported_media_type', { param: 'Content-Encoding', message })
  }
  const contentType = headers['content-type']
  if (contentType === undefined || contentType === JSON_TYPE) return undefined
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(contentType)?.[1]
  if (charset === undefined || /^utf-?8$/i.test(charset)) return undefined
  const message = `The charset "${charset.slice(0, 40)}" is not supported. Send the body in UTF-8.`
  return new ApiError('unsupported_media_type', { param: 'Content-Type', message })
}
