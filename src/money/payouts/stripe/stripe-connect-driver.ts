import type { Stripe } from 'stripe'
import type { WithProvider } from '../../payments/provider-sync.ts'
import { createStripeClient, listAll, orNull, type StripeClient } from '../../payments/stripe/stripe-client.ts'
import type { StripeSettings } from '../../payments/stripe/stripe-settings.ts'
import { type Enrolment, type PayoutDriver, PayoutRefused, type PayoutReport } from '../payout-driver.ts'

/**
 * Pays by Stripe Connect, with separate charges and transfers: a top-up comes before anybody knows which hosters it
 * will pay. Each hoster has an Express account, which Stripe asks for whatever the law wants.
 *
 * @param returnUrl where a browser comes back to from the pages of Stripe
 */
export function createStripeConnectDriver(
  settings: StripeSettings,
  returnUrl: (hosterId: string) => string,
): WithProvider<PayoutDriver> {
  const client = createStripeClient(settings)
  return {
    name: 'stripe',
    isLive: settings.isLive,
    async enroll(hosterId, destination) {
      const known = destination === null ? null : await readAccount(client, destination)
      const account = known === null ? await createAccount(client, hosterId, destination) : known.destination
      const enrolment = known ?? (await readAccount(client, account)) ?? goneAccount(account)
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
            if (type === 'StripeInvalidRequestError' || isGone(error)) throw new PayoutRefused(message)
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
      async subjectOf(ref) {
        if (ref.startsWith('acct_')) return { destination: ref }
        const transfer = await client(stripe => orNull(stripe.transfers.retrieve(ref)))
        const payoutId = transfer?.metadata.payout_id
        return payoutId === undefined ? null : { payoutId }
      },
      account: async destination => (await readAccount(client, destination)) ?? goneAccount(destination),
    },
  }
}

/**
 * Creates the account of a hoster, unless an earlier call without an answer did. Stripe forgets idempotency keys after
 * a day.
 *
 * @param gone the account before it, which is closed; null: none
 */
async function createAccount(client: StripeClient, hosterId: string, gone: string | null): Promise<string> {
  const accounts = await client(stripe => listAll(stripe.accounts.list({ limit: 100 })))
  const earlier = accounts.find(({ id, metadata }) => metadata?.hoster_id === hosterId && id !== gone)
  if (earlier !== undefined) return earlier.id
  const account = await client(stripe =>
    stripe.accounts.create(
      { type: 'express', capabilities: { transfers: { requested: true } }, metadata: { hoster_id: hosterId } },
      { idempotencyKey: gone === null ? `account-${hosterId}` : `account-${hosterId}-after-${gone}` },
    ),
  )
  return account.id
}

/** Returns null for an account that is closed, or no longer connected to the platform. */
async function readAccount(client: StripeClient, ref: string): Promise<Enrolment | null> {
  const account = await client(async stripe => {
    try {
      return await stripe.accounts.retrieve(ref)
    } catch (error) {
      if (isGone(error)) return null
      throw error
    }
  })
  if (account === null) return null
  const missing = account.requirements?.currently_due ?? []
  const banks = account.external_accounts
  // The same for a bank account wherever it is used.
  const fingerprints = (banks?.data ?? []).flatMap(({ fingerprint }) => fingerprint ?? [])
  // Stripe keeps a transfer until the account has a bank account, and the gateway has not checked that later one. So all
  // bank accounts must be known here.
  const areBanksKnown = fingerprints.length > 0 && fingerprints.length === banks?.data.length && banks.has_more !== true
  const isReady = account.capabilities?.transfers === 'active' && areBanksKnown
  return {
    destination: account.id,
    holder: null,
    identities: fingerprints.map(fingerprint => `stripe-account:${fingerprint}`),
    isReady,
    note: isReady ? null : noteOf(missing, banks?.data.length ?? 0),
    url: null,
  }
}

function noteOf(missing: readonly string[], banks: number): string {
  if (missing.length > 0) return `Stripe asks for ${missing.join(', ')}.`
  if (banks === 0) return 'The account at Stripe has no bank account.'
  return banks > 1 ? 'Stripe checks the account. Give it one bank account only.' : 'Stripe checks the account.'
}

function goneAccount(destination: string): Enrolment {
  const note = 'The account at Stripe is closed, or no longer connected to this gateway. Start again for another one.'
  return { destination, holder: null, identities: [], isReady: false, note, url: null }
}

/** Stripe answers 403 for an account that was closed or disconnected, and 404 for one that never was. */
function isGone(error: unknown): boolean {
  const { statusCode, code } = error as { statusCode?: number; code?: string }
  return code === 'account_invalid' || code === 'resource_missing' || statusCode === 404
}

/** Throws for amounts that are no safe integers, and for a negative reversal: it would pay more than the transfer. */
function reportOf(transfer: Stripe.Transfer): PayoutReport {
  const { id, amount, currency, destination, livemode, amount_reversed, metadata } = transfer
  if (!Number.isSafeInteger(amount) || !Number.isSafeInteger(amount_reversed) || amount_reversed < 0)
    throw new Error(`transfer ${id} has the amount ${amount}, of which ${amount_reversed} were reversed`)
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
