import { DAY_MS } from '../../base/domain/durations.ts'
import type { StoredBackup } from './backup-store.ts'

/**
 * Returns the backups that are not kept. Kept are those of the 24 hours before the newest, and the newest of each of the
 * last `days` days and of the last `weeks` weeks (UTC, from Monday) that have one. `proven` was restored as a test and is kept too.
 */
export function expiredBackups(
  backups: readonly StoredBackup[],
  { days, weeks, proven }: { readonly days: number; readonly weeks: number; readonly proven: string | null },
): StoredBackup[] {
  const sorted = backups.toSorted((a, b) => b.startedMs - a.startedMs)
  const newestMs = sorted[0]?.startedMs ?? 0
  const kept = new Set([
    ...sorted.filter(({ name, startedMs }) => name === proven || newestMs - startedMs < DAY_MS),
    ...newestOfEach(sorted, days, startedMs => Math.floor(startedMs / DAY_MS)),
    // 1970-01-05 was the first Monday.
    ...newestOfEach(sorted, weeks, startedMs => Math.floor((startedMs / DAY_MS - 4) / 7)),
  ])
  return sorted.filter(backup => !kept.has(backup))
}

/** The newest backup of each of the last spans. `sorted` begins with the newest. */
function newestOfEach(
  sorted: readonly StoredBackup[],
  count: number,
  spanOf: (startedMs: number) => number,
): StoredBackup[] {
  const newest = new Map<number, StoredBackup>()
  for (const backup of sorted) {
    const span = spanOf(backup.startedMs)
    if (!newest.has(span)) newest.set(span, backup)
  }
  return [...newest.values()].slice(0, count)
}
