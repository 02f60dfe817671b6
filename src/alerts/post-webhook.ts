import * as https from 'node:https'
import type { LookupFunction } from 'node:net'
import type { AlertAttempt } from '../domain/alert-rule.ts'
import { parseOutboundUrl } from '../egress/outbound-url.ts'
import { http } from '../runtime/node-http.ts'

export type Sent = Pick<AlertAttempt, 'outcome' | 'status' | 'error'>

export interface PostWebhookOptions {
  /** Without it, only https on public addresses is called. */
  readonly allowPrivate: boolean
  /** Resolves names, and refuses those that stand for an address that is not public. */
  readonly publicLookup: LookupFunction
  readonly timeoutMs?: number
}

const TIMEOUT_MS = 5_000

/**
 * Posts JSON to an address that a customer gave us: one attempt, five seconds for all of it, no redirects, no proxy, a new connection.
 * Only the status of the answer is looked at. Never rejects; the error is worded for the customer.
 */
export function postWebhook(
  target: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  { allowPrivate, publicLookup, timeoutMs = TIMEOUT_MS }: PostWebhookOptions,
): Promise<Sent> {
  // Again, and not only when the rule was made: the operator may have changed their mind about private addresses.
  const url = parseOutboundUrl(target, { allowPrivate, allowQuery: true })
  if (typeof url === 'string') return Promise.resolve(failed(`The URL is refused: ${url}.`))
  const { request } = url.protocol === 'https:' ? https : http
  return new Promise(resolve => {
    const signal = AbortSignal.timeout(timeoutMs)
    const outgoing = request(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'user-agent': 'switchyard',
        ...headers,
      },
      signal,
      agent: false,
      maxHeaderSize: 16_384,
      ...(!allowPrivate && { lookup: publicLookup }),
    })
    outgoing.on('response', response => {
      const status = response.statusCode ?? 0
      if (status >= 200 && status < 300) resolve({ outcome: 'delivered', status, error: null })
      else if (status >= 300 && status < 400) resolve(failed('Redirects are not followed.', status))
      else resolve(failed(`The receiver answered ${status}.`, status))
      // The body is nothing to us, however long it is.
      response.destroy()
    })
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      resolve(failed(signal.aborted ? `No answer within ${timeoutMs / 1000} s.` : connectionError(error)))
    })
    // A receiver may end the connection in ways that are no error, such as switching protocols.
    outgoing.on('close', () => resolve(failed('The connection ended without an answer.')))
    outgoing.end(body)
  })
}

function connectionError({ code }: NodeJS.ErrnoException): string {
  if (code === 'EADDRNOTPUBLIC') return 'The host name stands for an address that is not public.'
  if (code === 'ENOTFOUND') return 'The host name is not known.'
  return `The connection failed${code === undefined ? '' : ` (${code})`}.`
}

function failed(error: string, status: number | null = null): Sent {
  return { outcome: 'failed', status, error }
}
