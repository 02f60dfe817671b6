import * as z from 'zod'
import type { SettingTypes } from '../payment-driver.ts'

export interface StripeSettings {
  readonly secretKey: string
  /** Null: no webhooks; payments are asked for by the job alone. */
  readonly webhookSecret: string | null
  readonly isLive: boolean
  /** Lets Stripe Tax add taxes. */
  readonly hasTax: boolean
  /** Null: Stripe's own address. */
  readonly apiUrl: string | null
}

/** What stands in `payments.stripe` of the configuration file. */
export const stripeSchema = ({ secret, flag, httpUrl }: SettingTypes) =>
  z.strictObject({
    secret_key: secret('secret or restricted key of Stripe', /^[sr]k_(live|test)_\S+$/).optional(),
    webhook_secret: secret('signing secret of Stripe', /^whsec_\S+$/).optional(),
    tax: flag().prefault('false'),
    api_url: httpUrl().optional(),
  })

/** Returns null if Stripe is not set up. */
export function readStripeSettings({
  secret_key,
  webhook_secret,
  tax,
  api_url,
}: z.output<ReturnType<typeof stripeSchema>>): StripeSettings | null {
  if (secret_key === undefined) return null
  return {
    secretKey: secret_key,
    webhookSecret: webhook_secret ?? null,
    isLive: /^.k_live_/.test(secret_key),
    hasTax: tax,
    apiUrl: api_url ?? null,
  }
}
