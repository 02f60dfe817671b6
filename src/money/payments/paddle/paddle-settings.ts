import * as z from 'zod'
import type { SettingTypes } from '../payment-driver.ts'

export interface PaddleSettings {
  readonly apiKey: string
  /** Null: no webhooks; payments are asked for by the job alone. */
  readonly webhookSecret: string | null
  /** False in Paddle's sandbox, which has keys and an address of its own. */
  readonly isLive: boolean
  /** Null: Paddle's own address. */
  readonly apiUrl: string | null
}

/** What stands in `payments.paddle` of the configuration file. */
export const paddleSchema = ({ secret, httpUrl }: SettingTypes) =>
  z.strictObject({
    api_key: secret('API key of Paddle', /^pdl_(live|sdbx)_apikey_\w+$/).optional(),
    webhook_secret: secret('secret of a notification destination of Paddle', /^pdl_ntfset_\S+$/).optional(),
    api_url: httpUrl().optional(),
  })

/** Returns null if Paddle is not set up. */
export function readPaddleSettings({
  api_key,
  webhook_secret,
  api_url,
}: z.output<ReturnType<typeof paddleSchema>>): PaddleSettings | null {
  if (api_key === undefined) return null
  return {
    apiKey: api_key,
    webhookSecret: webhook_secret ?? null,
    isLive: api_key.startsWith('pdl_live_'),
    apiUrl: api_url ?? null,
  }
}
