// The names of those that move money. They stand here only: add one, then follow the type errors.

/** Payment providers: services that take money from payers and report it. */
export const paymentProviderNames = ['stripe', 'paddle'] as const
export type PaymentProviderName = (typeof paymentProviderNames)[number]

/** What a top-up can be started with. `manual`: a person confirms that the money arrived. */
export const topUpDriverNames = ['manual', ...paymentProviderNames] as const
export type TopUpDriverName = (typeof topUpDriverNames)[number]

/** What a row of `payment` can have. A voucher is redeemed, not started. */
export const paymentDriverNames = ['manual', 'voucher', ...paymentProviderNames] as const
export type PaymentDriverName = (typeof paymentDriverNames)[number]

/** Services that pay hosters and report it. They have the settings that they have for payments. */
export const payoutProviderNames = ['stripe'] as const satisfies readonly PaymentProviderName[]
export type PayoutProviderName = (typeof payoutProviderNames)[number]

/** How hosters are paid. `csv`: an operator hands a file to a bank. */
export const payoutDriverNames = ['csv', ...payoutProviderNames] as const
export type PayoutDriverName = (typeof payoutDriverNames)[number]

/** How texts for people call a provider. */
export const providerLabels: Readonly<Record<PaymentProviderName | PayoutProviderName, string>> = {
  stripe: 'Stripe',
  paddle: 'Paddle',
}

/** How texts for people call a driver of payouts. */
export const payoutLabels: Readonly<Record<PayoutDriverName, string>> = { csv: 'bank transfer', ...providerLabels }
