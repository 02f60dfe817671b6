import type { Sql } from '../../../base/db/pool.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import type { Endpoint, Offer } from '../../../base/domain/offer.ts'
import type { Log } from '../../../base/runtime/log.ts'
import { createPeriodicWork } from '../../../base/runtime/periodic-work.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'

/** What the providers with a budget have charged in this month (UTC), as all nodes have reported it. */
export interface ProviderBudgets {
  /** Whether a provider has charged its budget of this month. */
  isSpent(endpoint: Endpoint): boolean
  /** Reads the sums again. Rejects when the database is unavailable. */
  refresh(): Promise<void>
  /** Reads them every few seconds until stopped. */
  start(): void
  stop(): Promise<void>
}

const EVERY_MS = 5_000

export function createProviderBudgets(deps: {
  readonly sql: Sql
  /** The local and cloud offers of this node. */
  readonly offers: () => readonly Offer[]
  /** Called when a provider has reached its budget or is below it again. */
  readonly onChange: () => void
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'>
  readonly everyMs?: number
}): ProviderBudgets {
  const { sql, offers, onChange, scheduler, log, everyMs = EVERY_MS } = deps
  let spent: ReadonlyMap<string, Nanos> = new Map()
  const isSpent = ({ endpointId, monthlyBudgetNanos }: Endpoint) =>
    monthlyBudgetNanos !== undefined && (spent.get(endpointId) ?? 0n) >= monthlyBudgetNanos

  async function refresh() {
    const limited = new Map(
      offers().flatMap(({ endpoint }) =>
        endpoint.monthlyBudgetNanos === undefined ? [] : [[endpoint.endpointId, endpoint] as const],
      ),
    )
    if (limited.size === 0 && spent.size === 0) return
    const before = [...limited.values()].map(isSpent)
    spent = await readMonthCosts(sql, [...limited.keys()], scheduler.epochMs())
    if ([...limited.values()].some((endpoint, index) => isSpent(endpoint) !== before[index])) onChange()
  }

  const reading = createPeriodicWork({
    work: refresh,
    everyMs,
    failure: 'the budgets of providers could not be read; trying again',
    scheduler,
    log,
  })
  return { isSpent, refresh, start: reading.start, stop: reading.stop }
}

/** Returns what providers have charged since the month (UTC) began. */
export async function readMonthCosts(
  sql: Sql,
  endpointIds: readonly string[],
  nowMs: number,
): Promise<ReadonlyMap<string, Nanos>> {
  if (endpointIds.length === 0) return new Map()
  const { rows } = await sql.query<{ endpointId: string; nanos: bigint }>(MONTH_COSTS, [endpointIds, new Date(nowMs)])
  return new Map(rows.map(({ endpointId, nanos }) => [endpointId, nanos]))
}

// At most 31 rows for each model.
const MONTH_COSTS = `
SELECT endpoint_id AS "endpointId", sum(own_cost_nanos)::bigint AS nanos FROM server_day
 WHERE day >= date_trunc('month', $2::timestamptz AT TIME ZONE 'UTC')::date AND endpoint_id = ANY ($1)
 GROUP BY endpoint_id`
