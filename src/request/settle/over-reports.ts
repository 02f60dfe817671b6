import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'

export interface OverReportDeps {
  readonly clock: Clock
  readonly onOverReport: () => void
  readonly log: Pick<Log, 'warn'>
}

const LOG_EVERY_MS = 60_000

/**
 * Detects hosters that report more tokens than the gateway accepts, so that the operator can check them. They
 * are billed by the gateway's count, and the usage row has both figures. Logs at most one line a minute for
 * each hoster, since a false report usually repeats.
 */
export function createOverReports({ clock, onOverReport, log }: OverReportDeps): (settlement: Settlement) => void {
  const loggedAtMs = new Map<string, number>()
  return settlement => {
    const { hosterId, usageSource, reportedInputTokens, reportedOutputTokens, inputTokens, outputTokens } = settlement
    if (hosterId === null || usageSource !== 'gateway') return
    // When the client left, the gateway has not seen all generated tokens, so the two counts cannot be compared.
    if (settlement.outcome === 'client_gone') return
    // Without a report the gateway's count is billed too: not an over-report.
    if (!((reportedInputTokens ?? 0) > inputTokens || (reportedOutputTokens ?? 0) > outputTokens)) return
    onOverReport()
    const nowMs = clock.monotonicMs()
    if (nowMs < (loggedAtMs.get(hosterId) ?? -Infinity) + LOG_EVERY_MS) return
    loggedAtMs.set(hosterId, nowMs)
    const { requestId, modelId } = settlement
    log.warn(
      { hosterId, requestId, modelId, reportedInputTokens, reportedOutputTokens, inputTokens, outputTokens },
      'a hoster reports more tokens than it generated; the count of the gateway is billed',
    )
  }
}
