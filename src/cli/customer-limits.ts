import { type Command, InvalidArgumentError } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import type { AccountLimits } from '../base/domain/caller.ts'
import { type Nanos, parseUsd, usdText } from '../base/domain/money.ts'
import { type OwnLimits, setOwnLimits } from '../money/accounts/customers.ts'
import { noteCustomerChange, readCustomerState } from '../money/accounts/note-customer.ts'
import { limitsOfTier } from '../start/config/config.ts'
import { type Change, changeArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import type { Json } from './output.ts'
import { resolveCustomer } from './resolve.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function customerLimitsCommand(): Command {
  return createCommand('limits', "Show the limits of a customer, or replace those of its tier by the customer's own", [
    'customer limits ada@example.com',
    'customer limits ada@example.com --requests-per-minute 600 --daily-spend-cap-usd 250',
    'customer limits ada@example.com --requests-per-minute tier',
  ])
    .argument('<customer>', 'e-mail or id')
    .option(
      '--requests-per-minute <n>',
      'own limit, or tier for the one of the tier',
      changeArgument('tier', requestsArgument),
    )
    .option(
      '--requests-per-day <n>',
      'own limit, or tier for the one of the tier',
      changeArgument('tier', requestsArgument),
    )
    .option(
      '--daily-spend-cap-usd <usd>',
      'own cap, or tier for the one of the tier; 0 stops paid requests',
      changeArgument('tier', capArgument),
    )
    .action(async (emailOrId: string, options) => {
      const session = createSession(options)
      const { requestsPerMinute, requestsPerDay, dailySpendCapUsd } = options as ChangedLimits
      const isChange = [requestsPerMinute, requestsPerDay, dailySpendCapUsd].some(value => value !== undefined)
      const { customer, own } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const found = await resolveCustomer(sql, emailOrId)
          const before = await readCustomerState(sql, found)
          const limits: OwnLimits = {
            requestsPerMinute: requestsPerMinute === undefined ? before.requestsPerMinute : requestsPerMinute.to,
            requestsPerDay: requestsPerDay === undefined ? before.requestsPerDay : requestsPerDay.to,
            dailySpendCapNanos: dailySpendCapUsd === undefined ? before.dailySpendCapNanos : dailySpendCapUsd.to,
          }
          if (isChange) {
            await setOwnLimits(sql, found.customerId, limits)
            await noteCustomerChange(sql, commandLine, found, { before, after: { ...before, ...limits } })
          }
          return { customer: found, own: limits }
        }),
      )
      const tier = limitsOfTier(session.config, customer.accountTier)
      session.output.result(
        {
          customer_id: customer.customerId,
          email: customer.email,
          account_tier: customer.accountTier,
          ...limitsJson(own, tier),
        },
        limitsTable(own, tier, customer.accountTier),
      )
    })
}

/** Null: back to the limit of the tier. */
interface ChangedLimits {
  readonly requestsPerMinute?: Change<number>
  readonly requestsPerDay?: Change<number>
  readonly dailySpendCapUsd?: Change<Nanos>
}

/** The limits in force, for programs, and which of them are the customer's own. */
export function limitsJson(own: OwnLimits, tier: AccountLimits): Record<string, Json> {
  return {
    requests_per_minute: own.requestsPerMinute ?? tier.requestsPerMinute,
    requests_per_day: own.requestsPerDay ?? tier.requestsPerDay,
    daily_spend_cap_usd: usdText(own.dailySpendCapNanos ?? tier.dailySpendCapNanos),
    own: [
      ...(own.requestsPerMinute === null ? [] : ['requests_per_minute']),
      ...(own.requestsPerDay === null ? [] : ['requests_per_day']),
      ...(own.dailySpendCapNanos === null ? [] : ['daily_spend_cap_usd']),
    ],
  }
}

export function limitsTable(own: OwnLimits, tier: AccountLimits, tierName: string): string {
  const from = (value: unknown) => (value === null ? `tier ${tierName}` : 'own')
  return table(
    ['limit', 'value', 'from'],
    [
      ['requests per minute', String(own.requestsPerMinute ?? tier.requestsPerMinute), from(own.requestsPerMinute)],
      ['requests per day', String(own.requestsPerDay ?? tier.requestsPerDay), from(own.requestsPerDay)],
      ['daily spend cap USD', usdText(own.dailySpendCapNanos ?? tier.dailySpendCapNanos), from(own.dailySpendCapNanos)],
    ],
    '',
  )
}

function requestsArgument(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a whole number above zero.')
  return Number(text)
}

/** Parses an amount of USD, which may be zero. */
function capArgument(text: string): Nanos {
  const nanos = parseUsd(text)
  if (nanos === undefined) throw new InvalidArgumentError('It must be USD with at most 9 decimals.')
  return nanos
}
