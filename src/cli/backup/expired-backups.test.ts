import { expect, test } from 'vitest'
import { backupName, type StoredBackup } from './backup-store.ts'
import { expiredBackups } from './expired-backups.ts'

const DAY_MS = 86_400_000
/** A Sunday. */
const NEWEST_MS = Date.parse('2026-11-29T03:15:00Z')

function backupAgo(days: number): StoredBackup {
  const startedMs = NEWEST_MS - days * DAY_MS
  return { name: backupName(new Date(startedMs)), startedMs, bytes: 1 }
}

function keptDays(backups: readonly StoredBackup[], rules: Partial<Parameters<typeof expiredBackups>[1]> = {}) {
  const expired = expiredBackups(backups, { days: 7, weeks: 4, proven: null, ...rules })
  return backups.filter(backup => !expired.includes(backup)).map(({ startedMs }) => (NEWEST_MS - startedMs) / DAY_MS)
}

test('a week of days and a month of weeks are kept', () => {
  const daily = Array.from({ length: 60 }, (_, days) => backupAgo(days))
  // Weeks end with a Sunday.
  expect(keptDays(daily)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 14, 21])
  expect(keptDays(daily, { days: 1, weeks: 0 })).toEqual([0])
})

test('all of the last 24 hours are kept, and one of each day before', () => {
  const hourly = Array.from({ length: 72 }, (_, hours) => backupAgo(hours / 24))
  const kept = keptDays(hourly, { days: 3, weeks: 0 })
  expect(kept.filter(days => days < 1)).toHaveLength(24)
  expect(kept.filter(days => days >= 1)).toHaveLength(1)
})

test('gaps do not count: the last backups are kept however old they are', () => {
  expect(keptDays([backupAgo(400), backupAgo(500)], { days: 2, weeks: 0 })).toEqual([400, 500])
})

test('the newest backup and the last that was restored are never removed', () => {
  const daily = Array.from({ length: 60 }, (_, days) => backupAgo(days))
  expect(keptDays(daily, { days: 0, weeks: 0, proven: daily[50]!.name })).toEqual([0, 50])
  expect(expiredBackups([], { days: 0, weeks: 0, proven: null })).toEqual([])
})
