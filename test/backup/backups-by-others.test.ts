import { expect, test } from 'vitest'
import { noteBackup, noteBackupFailure, noteRestoreTest } from '../../src/operator/backup-state.ts'
import { readSystem } from '../../src/operator/system.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

// A dump of the embedded PostgreSQL contains notes of its backups. They say nothing about the database that the dump is restored to.

const database = useTestDatabase()

test.each([
  [0, 'ok', 'backups are made by other means'],
  [48, 'failed', 'switchyard-1 could not be restored: It is damaged.'],
])(
  'where a backup is expected each %d hours, what is known of the last ones is %s',
  async (backupHours, state, detail) => {
    const { pool } = database
    await noteBackup(pool, new Date(Date.now() - 30 * 86_400_000))
    await noteBackupFailure(pool, { atMs: Date.now(), reason: 'The disk is full.' })
    await noteRestoreTest(pool, { name: 'switchyard-1', atMs: 1, elapsedMs: 1, problem: 'It is damaged.' })
    const { checks } = await readSystem(pool, {
      ...{ version: '', settings: [], nowMs: Date.now() },
      rules: { backupHours, schedules: [] },
    })
    expect(checks.find(({ check }) => check === 'backups')).toMatchObject({ state, detail })
  },
)
