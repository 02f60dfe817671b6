import { type BackupPlan, placeName } from '../base/domain/backup-plan.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/domain/durations.ts'
import type { BackupState, RestoreTest } from '../operator/backup-state.ts'

/** What failed is tried again after this time. */
const RETRY_MS = 15 * MINUTE_MS

/** A backup from further in the future was noted by a wrong clock, and counts as none. */
const CLOCK_MS = HOUR_MS

/** Returns what the schedule asks for now. A time that passed while no node ran is made up for. */
export function backupDue(
  plan: BackupPlan,
  state: Omit<BackupState, 'lastMs'>,
  nowMs: number,
): 'backup' | 'test' | null {
  const { stored, failure } = state
  const isFailing = failure !== null && failure.atMs > (stored?.startedMs ?? 0)
  if (isFailing && Math.abs(nowMs - failure.atMs) < RETRY_MS) return null
  const isCurrent =
    stored !== null &&
    stored.place === placeName(plan.place) &&
    stored.startedMs >= lastTime(plan, nowMs) &&
    stored.startedMs < nowMs + CLOCK_MS
  if (!isCurrent) return 'backup'
  return isTestDue(plan, state.test, stored.name, nowMs) ? 'test' : null
}

function isTestDue({ testDays }: BackupPlan, test: RestoreTest | null, newest: string, nowMs: number): boolean {
  if (testDays === 0) return false
  if (test === null) return true
  // A backup that cannot be restored stays so. The next one may be better.
  return test.problem === null ? Math.abs(nowMs - test.atMs) >= testDays * DAY_MS : test.name !== newest
}

/** The last time of the schedule that has come, Unix ms. */
function lastTime({ everyHours, atMinute }: BackupPlan, nowMs: number): number {
  const everyMs = everyHours * HOUR_MS
  const offsetMs = (atMinute * MINUTE_MS) % everyMs
  return Math.floor((nowMs - offsetMs) / everyMs) * everyMs + offsetMs
}
