import { createHmac, randomBytes } from 'node:crypto'

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
