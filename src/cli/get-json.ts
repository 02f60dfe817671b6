import * as http from 'node:http'
import * as https from 'node:https'
import type { LookupFunction } from 'node:net'

export interface JsonAnswer {
  readonly status: number
  /** Undefined when the body is not JSON. */
  readonly body: unknown
}

/** Above any list of models. */
const BODY_BYTES_MAX = 1_000_000
const TIMEOUT_MS = 5_000

/**
 * Asks an address once, for `doctor`: no redirects, no retry, five seconds. Rejects with a short reason when there is no answer.
 *
 * @param lookup resolves the host name; the pinned one for addresses that somebody else chose
 */
export function getJson(
  url: string,
  headers: Readonly<Record<string, string>> = {},
  lookup?: LookupFunction,
): Promise<JsonAnswer> {
  const { get } = url.startsWith('https:') ? https : http
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const request = get(url, { headers, signal, agent: false, ...(lookup && { lookup }) }, async response => {
      try {
        const parts: Buffer[] = []
        let bytes = 0
        for await (const part of response as AsyncIterable<Buffer>) {
          bytes += part.length
          if (bytes > BODY_BYTES_MAX) throw new Error('the answer is larger than 1 MB')
          parts.push(part)
        }
        resolve({ status: response.statusCode ?? 0, body: parsed(Buffer.concat(parts).toString('utf8')) })
      } catch (error) {
        reject(signal.aborted ? new Error('no answer within 5 s') : error)
      }
    })
    request.on('error', (error: NodeJS.ErrnoException) => {
      reject(signal.aborted ? new Error('no answer within 5 s') : new Error(error.code ?? error.message))
    })
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
