import { createHmac, randomBytes } from 'node:crypto'
import * as https from 'node:https'
import type { LookupFunction } from 'node:net'
import type { AlertAttempt } from '../../base/domain/alert-rule.ts'
import { http } from '../../base/runtime/node-http.ts'
import { parseOutboundUrl } from '../../wire/egress/outbound-url.ts'

export type Sent = Pick<AlertAttempt, 'outcome' | 'status' | 'error'>

export interface PostWebhookOptions {
  /** Permits http and private addresses. Otherwise only https on public addresses is called. */
  readonly allowPrivate: boolean
  /** Resolves host names and refuses those with an address that is not public. */
  readonly publicLookup: LookupFunction
  readonly timeoutMs?: number
}

const TIMEOUT_MS = 5_000

/**
 * Posts JSON to a customer's URL: one attempt on a new connection, five seconds by default, no redirects, no proxy.
 * Only the status of the answer is read. Never rejects; the returned error is meant for the customer.
 */
export function postWebhook(
  target: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  { allowPrivate, publicLookup, timeoutMs = TIMEOUT_MS }: PostWebhookOptions,
): Promise<Sent> {
  // Check again: the operator may have disallowed private addresses since the rule was created.
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
      // Do not read the body, which may be long.
      response.destroy()
    })
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      resolve(failed(signal.aborted ? `No answer within ${timeoutMs / 1000} s.` : connectionError(error)))
    })
    // A receiver may end the connection without an error, for example by switching protocols.
    outgoing.on('close', () => resolve(failed('The connection ended without an answer.')))
    outgoing.end(body)
  })
}

function connectionError({ code }: NodeJS.ErrnoException): string {
  if (code === 'EADDRNOTPUBLIC') return 'The host name resolves to an address that is not public.'
  if (code === 'ENOTFOUND') return 'The host name does not resolve.'
  return `The connection failed${code === undefined ? '' : ` (${code})`}.`
}

function failed(error: string, status: number | null = null): Sent {
  return { outcome: 'failed', status, error }
}

const PREFIX = 'whsec_'
/** Standard Webhooks allows 24 to 64. */
const SECRET_BYTES = 32

/** Creates a secret in the format of Standard Webhooks: `whsec_` and base64. */
export function mintWebhookSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64')
}

/** Returns the headers of Standard Webhooks 1.0 (standardwebhooks.com): id, time and signature of a body. */
export function signWebhook(secret: string, { id, epochMs, body }: { id: string; epochMs: number; body: string }) {
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
  const timestamp = String(Math.floor(epochMs / 1000))
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}
