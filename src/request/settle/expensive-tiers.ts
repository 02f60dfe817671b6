import type { Receipt } from '../../base/domain/handoff.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'

const LOG_EVERY_MS = 3_600_000

/**
 * Detects clouds that answer in a tier that costs the operator more, although no request asks for one: the account at the
 * cloud may have such a default. Logs at most one line an hour for each endpoint.
 */
export function createExpensiveTiers(deps: {
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
}): (settlement: Settlement, receipt: Receipt) => void {
  const loggedAtMs = new Map<string, number>()
  return ({ provider, endpointId, modelId, requestId }, { upstreamTier }) => {
    if (upstreamTier === undefined || provider !== 'cloud' || endpointId === null) return
    const nowMs = deps.clock.monotonicMs()
    if (nowMs < (loggedAtMs.get(endpointId) ?? -Infinity) + LOG_EVERY_MS) return
    loggedAtMs.set(endpointId, nowMs)
    deps.log.warn(
      { endpointId, modelId, requestId, tier: upstreamTier },
      'a cloud answered in a tier that costs more; the request is billed at the standard price. Set the default tier of the account at the cloud to standard, or raise the price',
    )
  }
}
