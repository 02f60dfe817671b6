import type { PayoutAccountShown } from '#api/payouts.ts'

export type PayoutDriver = PayoutAccountShown['drivers'][number]
export type PayoutProvider = Exclude<PayoutDriver, 'csv'>

const providerWords: Readonly<Record<PayoutProvider, string>> = { stripe: 'Stripe' }

export const payoutProviders = Object.keys(providerWords) as PayoutProvider[]

/** @param bank the word for a bank transfer, as it fits the place */
export function payoutWord(driver: PayoutDriver, bank: string): string {
  return driver === 'csv' ? bank : providerWords[driver]
}
