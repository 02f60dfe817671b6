import type { FastifyRequest } from 'fastify'
import type { Endpoint } from '../../http/endpoint.ts'
import { autoTopUpEndpoints } from '../../http/endpoints/auto-top-up.ts'
import { paymentWebhook } from '../../http/endpoints/payment-webhook.ts'
import { paymentEndpoints } from '../../http/endpoints/payments.ts'
import { createPeopleMail } from '../../identity/people/people-mail.ts'
import { createMailer } from '../../money/alerts/mailer.ts'
import { readDebt } from '../../money/ledger/accounts/read-balance.ts'
import { type AutoTopUps, createAutoTopUps } from '../../money/payments/auto-top-up.ts'
import { createDrivers, type DriverSettings } from '../../money/payments/create-drivers.ts'
import type { PaymentDriver } from '../../money/payments/payment-driver.ts'
import { createPaymentSync, type PaymentSync } from '../../money/payments/payment-sync.ts'
import { createPayments } from '../../money/payments/payments.ts'
import { baseUrlOf } from '../config/base-url.ts'
import { type ComposeContext, smallBodyLimit } from './compose-context.ts'
import type { Database } from './database.ts'
import type { PayoutParts } from './payouts.ts'

export interface PaymentParts {
  readonly drivers: readonly PaymentDriver[]
  readonly sync: PaymentSync
  readonly autoTopUps: AutoTopUps
  readonly endpoints: readonly Endpoint[]
}

/** Creates the drivers that are configured, and the endpoints of top-ups and vouchers. */
export function createPaymentParts(
  { config, clock, evidence, log }: ComposeContext,
  { general, desk }: Database,
  payouts: PayoutParts,
  addressOf: (request: FastifyRequest) => string,
): PaymentParts {
  const drivers = createDrivers(config.payments satisfies Required<DriverSettings>, () => baseUrlOf(config))
  const sync = createPaymentSync({ pool: desk, clock, drivers, evidence, log })
  const mailer = config.smtp.host === null ? null : createMailer(config.smtp, log).send
  const people = createPeopleMail({ send: mailer, baseUrl: () => baseUrlOf(config) })
  const limits = {
    get minNanos() {
      return config.payments.topUpMinNanos
    },
    get maxNanos() {
      return config.payments.topUpMaxNanos
    },
  }
  const autoTopUps = createAutoTopUps({
    pool: desk,
    clock,
    drivers,
    sync,
    limits,
    mail: people.send,
    creditsUrl: customerId => people.url(`/c/${customerId}/credits`),
    log,
  })
  const bodyLimitBytes = smallBodyLimit(config.server.bodyLimitBytes)
  const webhooks = drivers.flatMap(driver => {
    const webhook = driver.provider?.webhook
    if (webhook == null) return []
    // A provider that also pays hosters sends all its events to one address.
    const payoutDriver = payouts.drivers.find(({ name }) => name === driver.name)
    return paymentWebhook({
      driver,
      webhook,
      sync,
      payouts: payoutDriver === undefined ? null : { driver: payoutDriver, sync: payouts.sync },
      bodyLimitBytes: config.server.bodyLimitBytes,
    })
  })
  return {
    drivers,
    sync,
    autoTopUps,
    endpoints: [
      ...paymentEndpoints({
        payments: createPayments({ pool: desk, clock, drivers, limits, evidence }),
        debtNanos: customerId => readDebt(general, customerId),
        addressOf,
        bodyLimitBytes,
      }),
      ...autoTopUpEndpoints({ autoTopUps, addressOf, bodyLimitBytes }),
      ...webhooks,
    ],
  }
}
