import { expect, test, vi } from 'vitest'
import type { BackupPlan } from '../base/domain/backup-plan.ts'
import { backUp } from './back-up.ts'

const plan: BackupPlan = {
  place: { kind: 'directory', path: '/backups' },
  ...{ everyHours: 24, atMinute: 0, keepDays: 1, keepWeeks: 0, alarmAfterHours: 48, testDays: 7 },
  ...{ testDirectory: null, includesSecrets: false },
}

async function backUpWith(isBusy: boolean): Promise<{ notes: number; errors: number }> {
  let notes = 0
  const sql = {
    query: async <Row>(statement: string | { readonly text: string }) => {
      if (typeof statement === 'string' && statement.startsWith('INSERT')) notes++
      return { rows: [] as Row[], rowCount: 0 }
    },
  }
  const run = async () => ({ reason: 'It did not work.', isBusy })
  const log = { info: vi.fn(), error: vi.fn() }
  const clock = { epochMs: () => Date.UTC(2026, 10, 30), monotonicMs: () => 0 }
  await backUp({ sql, plan, run, clock, log }, new AbortController().signal)
  return { notes, errors: log.error.mock.calls.length }
}

test('a backup that fails is noted', async () => {
  expect(await backUpWith(false)).toEqual({ notes: 1, errors: 1 })
})

test('a backup that another process makes is no failure', async () => {
  expect(await backUpWith(true)).toEqual({ notes: 0, errors: 0 })
})
