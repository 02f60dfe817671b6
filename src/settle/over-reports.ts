import type { Settlement } from '../ledger/settlement/settlement.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'

export interface OverReportDeps {
  readonly clock: Clock
  readonly onOverReport: () => void
  readonly log: Pick<Log, 'warn'>
}

const LOG_EVERY_MS = 60_000

/**
 * Notices hosters that report more tokens than are believed. They are billed by our count, and their usage rows show both figures;
 * somebody should look at such a hoster. At most one line a minute for each, since a hoster that lies lies every time.
 */
export function createOverReports({ clock, onOverReport, log }: OverReportDeps): (settlement: Settlement) => void {
  const loggedAtMs = new Map<string, number>()
  return settlement => {
    const { hosterId, usageSource, reportedInputTokens, reportedOutputTokens, inputTokens, outputTokens } = settlement
    if (hosterId === null || usageSource !== 'gateway') return
    // What it generated for a client that left we have not all seen; of a whole answer nothing is billed then.
    if (settlement.outcome === 'client_gone') return
    // Where there was no report, our count is billed too.
    if (!((reportedInputTokens ?? 0) > inputTokens || (reportedOutputTokens ?? 0) > outputTokens)) return
    onOverReport()
    const nowMs = clock.monotonicMs()
    if (nowMs < (loggedAtMs.get(hosterId) ?? -Infinity) + LOG_EVERY_MS) return
    loggedAtMs.set(hosterId, nowMs)
    const { requestId, modelId } = settlement
    log.warn(
      { hosterId, requestId, modelId, reportedInputTokens, reportedOutputTokens, inputTokens, outputTokens },
      'a hoster reports more tokens than it generated; it is billed by our count',
    )
  }
}
