import type { Endpoint } from '../../http/endpoint.ts'
import { credits, creditTransactions } from '../../http/endpoints/credits.ts'
import { customerData } from '../../http/endpoints/customer-data.ts'
import { keyShow } from '../../http/endpoints/key.ts'
import { usageBreakdown, usageExport, usageSummary, usageTokens } from '../../http/endpoints/usage.ts'
import { usageContent, usageReceipt, usageRequests } from '../../http/endpoints/usage-requests.ts'
import { listKeyNames } from '../../identity/auth/keys.ts'
import { readMemberBudget } from '../../identity/people/member-limits.ts'
import { describeModels } from '../../market/supply/catalog/describe-models.ts'
import { listTransactions } from '../../money/ledger/accounts/list-transactions.ts'
import { readBalance } from '../../money/ledger/accounts/read-balance.ts'
import { readCredits } from '../../money/ledger/accounts/read-credits.ts'
import { createActivity } from '../../money/usage/activity.ts'
import { createCreditReports } from '../../money/usage/credit-reports.ts'
import { latencyReportOf } from '../../money/usage/latency-report.ts'
import { limitsReport } from '../../money/usage/limits-report.ts'
import { refuseReport, reportSql } from '../../money/usage/report-sql.ts'
import { createReports } from '../../money/usage/reports.ts'
import { usageSharesOf } from '../../money/usage/usage-shares.ts'
import { viewContent } from '../../operator/view-content.ts'
import { pricedFor } from '../../request/admit/admit.ts'
import { clientTrace } from './client-trace.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Content } from './content.ts'
import type { Database } from './database.ts'
import type { Limits } from './limits.ts'
import type { Money } from './money.ts'
import type { Supply } from './supply.ts'

interface UsageParts {
  readonly database: Database
  readonly money: Money
  readonly limits: Limits
  readonly supply: Supply
  readonly content: Content
}

/** Creates the endpoints of usage and credit reports. */
export function createUsage(
  { config, clock }: ComposeContext,
  {
    database: { general, lookups },
    money: { node, ledger },
    limits: { readWindows },
    supply: { catalog, breakers },
    content,
  }: UsageParts,
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
  const sql = reportSql(general)
  const noSpend = { daySpentNanos: 0n, dayLeasedNanos: 0n }
  return {
    endpoints: [
      ...customerData({
        latency: customerId => latencyReportOf(sql, customerId),
        shares: (customerId, by, query) => usageSharesOf(sql, customerId, by, query, clock.epochMs()),
        async keyNames(customerId) {
          const names = await listKeyNames(sql, customerId)
          const data = names.map(({ keyId, name, hint, isPlayground }) => ({
            id: keyId,
            name,
            hint,
            is_playground: isPlayground,
          }))
          return { object: 'list', data }
        },
        async limits({ customerId, limits }, personId) {
          const [windows, balance, member] = await Promise.all([
            readWindows(customerId, clock.epochMs()),
            readBalance(lookups, customerId),
            readMemberBudget(lookups, customerId, personId, clock.epochMs()),
          ]).catch(refuseReport)
          return limitsReport(limits, windows, balance ?? noSpend, member)
        },
        models: caller => describeModels(pricedFor(catalog.current(), caller), breakers.of(caller.customerId)),
        creditReports,
      }),
      usageSummary({ reports }),
      usageTokens({ reports }),
      usageBreakdown({ reports }),
      usageExport({ reports }),
      credits({ reports: creditReports }),
      creditTransactions({ reports: creditReports }),
      usageRequests({ activity }),
      usageReceipt({ activity }),
      usageContent({
        view: (acting, customerId, requestId) => viewContent(general, content.open, acting, { customerId, requestId }),
        addressOf: request => clientTrace(config, request).address,
      }),
      keyShow({ reports }),
    ],
  }
}
