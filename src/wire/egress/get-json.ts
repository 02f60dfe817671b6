import * as https from 'node:https'
import type { LookupFunction } from 'node:net'
import { http } from '../../base/runtime/node-http.ts'

export interface JsonAnswer {
  readonly status: number
  /** Undefined when the body is not JSON. */
  readonly body: unknown
  /** The time at which the server answered, by its own clock; null if it does not say. */
  readonly dateEpochMs: number | null
}

/** Larger than most lists of models. */
const BODY_BYTES_MAX = 1_000_000

export interface GetJsonOptions {
  /** Time limit from the connection to the last byte. */
  readonly timeoutMs: number
  readonly headers?: Readonly<Record<string, string>>
  /** The longest body that is read; default 1 MB. */
  readonly bytesMax?: number
  /** Resolves the host name. Use the pinned lookup for URLs from third parties. */
  readonly lookup?: LookupFunction | undefined
}

/**
 * Sends one GET request: no redirects, no retry, no connection kept. Rejects with a short reason when there
 * is no answer.
 */
export function getJson(url: string, options: GetJsonOptions): Promise<JsonAnswer> {
  return send(url, options, undefined)
}

/** Sends one POST request with a JSON body, otherwise like `getJson`. */
export function postJson(url: string, body: object, options: GetJsonOptions): Promise<JsonAnswer> {
  return send(url, options, { type: 'application/json', text: JSON.stringify(body) })
}

/** Sends one POST request with the body of an HTML form, otherwise like `getJson`. */
export function postForm(
  url: string,
  fields: Readonly<Record<string, string>>,
  options: GetJsonOptions,
): Promise<JsonAnswer> {
  const text = new URLSearchParams(fields).toString()
  return send(url, options, { type: 'application/x-www-form-urlencoded', text })
}

interface Body {
  readonly type: string
  readonly text: string
}

function send(url: string, options: GetJsonOptions, body: Body | undefined): Promise<JsonAnswer> {
  const { timeoutMs, lookup, bytesMax = BODY_BYTES_MAX } = options
  const method = body === undefined ? 'GET' : 'POST'
  const headers = { ...options.headers, ...(body !== undefined && { 'content-type': body.type }) }
  const { request: open } = url.startsWith('https:') ? https : http
  return new Promise((resolve, reject) => {
    const tooSlow = () => new Error(`no answer within ${timeoutMs / 1000} s`)
    const signal = AbortSignal.timeout(timeoutMs)
    const request = open(url, { method, headers, signal, agent: false, ...(lookup && { lookup }) }, async response => {
      try {
        const parts: Buffer[] = []
        let bytes = 0
        for await (const part of response as AsyncIterable<Buffer>) {
          bytes += part.length
          if (bytes > bytesMax) throw new Error(`the answer is larger than ${bytesMax / 1e6} MB`)
          parts.push(part)
        }
        const dateEpochMs = Date.parse(response.headers.date ?? '')
        resolve({
          status: response.statusCode ?? 0,
          body: parsed(Buffer.concat(parts).toString('utf8')),
          dateEpochMs: Number.isNaN(dateEpochMs) ? null : dateEpochMs,
        })
      } catch (error) {
        reject(signal.aborted ? tooSlow() : error)
      }
    })
    request.on('error', (error: NodeJS.ErrnoException) => {
      reject(signal.aborted ? tooSlow() : noAnswer(error, url))
    })
    request.end(body?.text)
  })
}

/** Says in words what the codes of usual failures mean. The error keeps its code. */
function noAnswer({ code, message }: NodeJS.ErrnoException, url: string): Error {
  const { hostname } = new URL(url)
  const reasons: Readonly<Record<string, string>> = {
    ENOTFOUND: `no server has the name ${hostname}`,
    ECONNREFUSED: 'nothing answers at this address and port',
    ECONNRESET: 'the connection was closed without an answer',
    CERT_HAS_EXPIRED: 'the certificate of the server has expired',
  }
  return Object.assign(new Error(reasons[code ?? ''] ?? code ?? message), { code })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
