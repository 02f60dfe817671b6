import type { Stripe } from 'stripe'
import {
  createStripeClient,
  listAll,
  orNull,
  type StripeClient,
  type StripeSettings,
} from '../payments/stripe/stripe-client.ts'
import { type Enrolment, type PayoutDriver, PayoutRefused, type PayoutReport } from './payout-driver.ts'

/**
 * Pays by Stripe Connect, with separate charges and transfers: a top-up comes before anybody knows which hosters it will pay. Each
 * hoster has an Express account, which Stripe asks for whatever the law wants.
 *
 * @param returnUrl where a browser comes back to from the pages of Stripe
 */
export function createStripeConnectDriver(
  settings: StripeSettings,
  returnUrl: (hosterId: string) => string,
): PayoutDriver {
  const client = createStripeClient(settings)
  return {
    name: 'stripe',
    isLive: settings.isLive,
    async enroll(hosterId, destination) {
      const account = destination ?? (await createAccount(client, hosterId))
      const enrolment = await readAccount(client, account)
      if (enrolment.isReady) return enrolment
      const back = returnUrl(hosterId)
      const link = await client(stripe =>
        stripe.accountLinks.create({ account, type: 'account_onboarding', refresh_url: back, return_url: back }),
      )
      return { ...enrolment, url: link.url }
    },
    async pay(batch) {
      const refs = new Map<string, string>()
      for (const { payoutId, hosterId, amountMinor, currency, destination, reference } of batch) {
        const transfer = await client(async stripe => {
          try {
            return await stripe.transfers.create(
              {
                amount: Number(amountMinor),
                currency,
                destination,
                description: reference,
                transfer_group: payoutId,
                metadata: { payout_id: payoutId, hoster_id: hosterId },
              },
              { idempotencyKey: payoutId },
            )
          } catch (error) {
            const { type, message } = error as { type?: string; message: string }
            if (type === 'StripeInvalidRequestError') throw new PayoutRefused(message)
            throw error
          }
        })
        refs.set(payoutId, transfer.id)
      }
      return { file: null, refs }
    },
    async look({ payoutId, providerRef }) {
      const transfer = await client(async stripe => {
        if (providerRef !== null) return stripe.transfers.retrieve(providerRef)
        // Stripe forgets idempotency keys after a day, so a transfer is looked for before it is made.
        const { data } = await stripe.transfers.list({ transfer_group: payoutId, limit: 1 })
        return data[0]
      })
      return transfer === undefined ? { state: 'absent' } : reportOf(transfer)
    },
    provider: {
      async payoutIdOf(transferRef) {
        const transfer = await client(stripe => orNull(stripe.transfers.retrieve(transferRef)))
        return transfer?.metadata.payout_id ?? null
      },
      account: destination => readAccount(client, destination),
    },
  }
}

/** Creates the account of a hoster, unless an earlier call without an answer did. Stripe forgets idempotency keys after a day. */
async function createAccount(client: StripeClient, hosterId: string): Promise<string> {
  const accounts = await client(stripe => listAll(stripe.accounts.list({ limit: 100 })))
  const earlier = accounts.find(({ metadata }) => metadata?.hoster_id === hosterId)
  if (earlier !== undefined) return earlier.id
  const account = await client(stripe =>
    stripe.accounts.create(
      { type: 'express', capabilities: { transfers: { requested: true } }, metadata: { hoster_id: hosterId } },
      { idempotencyKey: `account-${hosterId}` },
    ),
  )
  return account.id
}

async function readAccount(client: StripeClient, ref: string): Promise<Enrolment> {
  const account = await client(stripe => stripe.accounts.retrieve(ref))
  const missing = account.requirements?.currently_due ?? []
  const isReady = account.capabilities?.transfers === 'active'
  return {
    destination: account.id,
    holder: null,
    // The same for a bank account wherever it is used.
    identities: (account.external_accounts?.data ?? []).flatMap(({ fingerprint }) =>
      typeof fingerprint === 'string' ? [`stripe-account:${fingerprint}`] : [],
    ),
    isReady,
    note: isReady
      ? null
      : missing.length === 0
        ? 'Stripe checks the account.'
        : `Stripe asks for ${missing.join(', ')}.`,
    url: null,
  }
}

function reportOf(transfer: Stripe.Transfer): PayoutReport {
  const { id, amount, currency, destination, livemode, amount_reversed, metadata } = transfer
  return {
    state: 'paid',
    ref: id,
    payout_id: metadata.payout_id ?? null,
    amount_minor: amount,
    currency,
    destination: typeof destination === 'string' ? destination : (destination?.id ?? null),
    is_live: livemode,
    reversed_minor: amount_reversed,
  }
}
