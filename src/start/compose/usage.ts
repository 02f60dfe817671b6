import type { Endpoint } from '../../http/endpoint.ts'
import { creditTransactions } from '../../http/endpoints/credit-transactions.ts'
import { credits } from '../../http/endpoints/credits.ts'
import { keyShow } from '../../http/endpoints/key.ts'
import { usageBreakdown } from '../../http/endpoints/usage-breakdown.ts'
import { usageExport } from '../../http/endpoints/usage-export.ts'
import { usageReceipt } from '../../http/endpoints/usage-receipt.ts'
import { usageRequests } from '../../http/endpoints/usage-requests.ts'
import { usageSummary } from '../../http/endpoints/usage-summary.ts'
import { usageTokens } from '../../http/endpoints/usage-tokens.ts'
import { listTransactions } from '../../ledger/accounts/list-transactions.ts'
import { readBalance } from '../../ledger/accounts/read-balance.ts'
import { readCredits } from '../../ledger/accounts/read-credits.ts'
import { createActivity } from '../../usage/activity.ts'
import { createCreditReports } from '../../usage/credit-reports.ts'
import { createReports } from '../../usage/reports.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Limits } from './limits.ts'
import type { Money } from './money.ts'

/** Creates the endpoints of usage and credit reports. */
export function createUsage(
  { clock }: ComposeContext,
  { general, lookups }: Database,
  { node, ledger }: Money,
  { readWindows }: Limits,
): { readonly endpoints: readonly Endpoint[] } {
  const reports = createReports({
    sql: general,
    clock,
    readBalance: async customerId => (await readBalance(lookups, customerId))?.postedNanos ?? 0n,
    readWindows,
  })
  const creditReports = createCreditReports({
    async readCredits(customerId) {
      const credits = await readCredits(general, node.nodeId, customerId)
      return credits && { ...credits, heldNanos: credits.heldNanos + ledger.owedNanos(credits.ownLeases) }
    },
    listTransactions: (customerId, page) =>
      listTransactions(general, customerId, { ...page, nowEpochMs: clock.epochMs() }),
  })
  const activity = createActivity({ sql: general })
  return {
    endpoints: [
      usageSummary({ reports }),
      usageTokens({ reports }),
      usageBreakdown({ reports }),
      usageExport({ reports }),
      credits({ reports: creditReports }),
      creditTransactions({ reports: creditReports }),
      usageRequests({ activity }),
      usageReceipt({ activity }),
      keyShow({ reports }),
    ],
  }
}
