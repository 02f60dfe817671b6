import { expect, test, vi } from 'vitest'
import type { BackupPlan } from '../base/domain/backup-plan.ts'
import { backUp } from './back-up.ts'

const plan: BackupPlan = {
  place: { kind: 'directory', path: '/backups' },
  ...{ everyHours: 24, atMinute: 0, keepDays: 1, keepWeeks: 0, alarmAfterHours: 48, testDays: 7 },
  ...{ testDirectory: null, includesSecrets: false },
}

test.for([
  [true, 0],
  [false, 1],
] as const)(
  'a command that fails, where another one makes the backup: %s, is noted %d times',
  async ([isBusy, notes]) => {
    const written: string[] = []
    const sql = {
      query: async <Row>(statement: string | { readonly text: string }) => {
        const text = typeof statement === 'string' ? statement : statement.text
        if (text.startsWith('INSERT')) written.push(text)
        return { rows: [] as Row[], rowCount: 0 }
      },
    }
    const run = async () => ({ reason: 'Another backup is running.', isBusy })
    const log = { info: vi.fn(), error: vi.fn() }
    const clock = { epochMs: () => Date.UTC(2026, 10, 30), monotonicMs: () => 0 }
    await backUp({ sql, plan, run, clock, log }, new AbortController().signal)
    expect([written.length, log.error.mock.calls.length]).toEqual([notes, notes])
  },
)
