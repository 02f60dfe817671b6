import type { Command } from 'commander'
import { usdText } from '../base/domain/money.ts'
import { noSpend } from '../base/domain/spend.ts'
import { listKeys } from '../identity/auth/keys.ts'
import { readSharing } from '../identity/people/request-sharing.ts'
import { findCustomer, readOwnLimits } from '../money/accounts/customers.ts'
import { readBalance } from '../money/ledger/accounts/read-balance.ts'
import { spendByCustomer, spendByKey } from '../money/usage/spend.ts'
import { limitsOfTier } from '../start/config/config.ts'
import { createCommand, createSession } from './command.ts'
import { customerJson, spendJson } from './customer-figures.ts'
import { limitsJson, limitsTable } from './customer-limits.ts'
import { keyJson, keyTable } from './key-figures.ts'
import { DELETED } from './output.ts'
import { noCustomer } from './resolve.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function showCustomerCommand(): Command {
  return createCommand('show', 'Show a customer: balance, spend, limits and keys', [
    'customer show ada@example.com',
    'customer show 90c2b3f7-a4cb-4d6a-a580-a99027e23106 --json',
  ])
    .argument('<customer>', 'e-mail or id; the id of a deleted customer too')
    .action(async (emailOrId: string, options) => {
      const session = createSession(options)
      const { customer, sharesRequests, own, balance, spend, keys, spendOfKeys } = await withDatabase(
        session,
        async pool => {
          const customer = (await findCustomer(pool, emailOrId)) ?? noCustomer(emailOrId)
          const { customerId } = customer
          const nowMs = Date.now()
          const [sharesRequests, own, balance, spend, keys, spendOfKeys] = await Promise.all([
            readSharing(pool, customerId),
            readOwnLimits(pool, customerId),
            readBalance(pool, customerId),
            spendByCustomer(pool, customerId, nowMs),
            listKeys(pool, customerId),
            spendByKey(pool, customerId, nowMs),
          ])
          return { customer, sharesRequests, own, balance, spend: spend.get(customerId) ?? noSpend, keys, spendOfKeys }
        },
      )
      const tier = limitsOfTier(session.config, customer.accountTier)
      const figures = customerJson(customer)
      const balanceUsd = usdText(balance?.postedNanos ?? 0n)
      const spent = spendJson(spend)
      session.output.result(
        {
          ...figures,
          shares_requests: sharesRequests,
          balance_usd: balanceUsd,
          spend: spent,
          limits: limitsJson(own, tier),
          keys: keys.map(key => keyJson(key, spendOfKeys.get(key.keyId))),
        },
        [
          table(
            ['id', 'e-mail', 'tier', 'balance USD', 'state', 'shares requests'],
            [
              [
                ...[figures.customer_id, figures.email ?? DELETED, figures.account_tier, balanceUsd, figures.state],
                sharesRequests ? 'yes' : 'no',
              ],
            ],
            '',
          ),
          table(
            ['today USD', 'week USD', 'month USD', 'total USD'],
            [[spent.today_usd, spent.week_usd, spent.month_usd, spent.total_usd]],
            '',
          ),
          limitsTable(own, tier, customer.accountTier),
          keyTable(keys, spendOfKeys, 'This customer has no keys.'),
        ].join('\n\n'),
      )
    })
}
