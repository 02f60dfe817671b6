import { HOUR_MS } from '../../base/domain/durations.ts'
import type { Receipt } from '../../base/domain/handoff.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'

const TIER_LOG_EVERY_MS = HOUR_MS

/**
 * Detects clouds that answer in a tier that costs the operator more, although no request asks for one: the account at
 * the cloud may have such a default. Logs at most one line an hour for each endpoint. Call it for clouds only.
 */
export function createExpensiveTiers(deps: {
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
}): (settlement: Settlement, receipt: Receipt) => void {
  const isDue = dueEvery(TIER_LOG_EVERY_MS, deps.clock)
  return ({ endpointId, modelId, requestId }, { upstreamTier }) => {
    if (upstreamTier === undefined || endpointId === null || !isDue(endpointId)) return
    deps.log.warn(
      { endpointId, modelId, requestId, tier: upstreamTier },
      'a cloud answered in a tier that costs more; the request is billed at the standard price. Set the default tier of the account at the cloud to standard, or raise the price',
    )
  }
}

export interface OverReportDeps {
  readonly clock: Clock
  readonly onOverReport: () => void
  readonly log: Pick<Log, 'warn'>
}

const OVER_REPORT_LOG_EVERY_MS = 60_000

/**
 * Detects hosters that report more tokens than the gateway accepts, so that the operator can check them. They
 * are billed by the gateway's count, and the usage row has both figures. Logs at most one line a minute for
 * each hoster, since a false report usually repeats.
 */
export function createOverReports({ clock, onOverReport, log }: OverReportDeps): (settlement: Settlement) => void {
  const isDue = dueEvery(OVER_REPORT_LOG_EVERY_MS, clock)
  return settlement => {
    const { hosterId, usageSource, reportedInputTokens, reportedOutputTokens, inputTokens, outputTokens } = settlement
    if (hosterId === null || usageSource !== 'gateway') return
    // When the client left, the gateway has not seen all generated tokens, so the two counts cannot be compared.
    if (settlement.outcome === 'client_gone') return
    // Without a report the gateway's count is billed too: not an over-report.
    if (!((reportedInputTokens ?? 0) > inputTokens || (reportedOutputTokens ?? 0) > outputTokens)) return
    onOverReport()
    if (!isDue(hosterId)) return
    const { requestId, modelId } = settlement
    log.warn(
      { hosterId, requestId, modelId, reportedInputTokens, reportedOutputTokens, inputTokens, outputTokens },
      'a hoster reports more tokens than it generated; the count of the gateway is billed',
    )
  }
}

/**
 * Returns whether a line about an id is due: at most one every `everyMs`. There are as many ids as endpoints or
 * hosters.
 */
function dueEvery(everyMs: number, clock: Clock): (id: string) => boolean {
  const loggedAtMs = new Map<string, number>()
  return id => {
    const nowMs = clock.monotonicMs()
    if (nowMs < (loggedAtMs.get(id) ?? -Infinity) + everyMs) return false
    loggedAtMs.set(id, nowMs)
    return true
  }
}
