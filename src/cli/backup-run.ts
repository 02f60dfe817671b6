import type { Command } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import { placeName } from '../base/domain/backup-plan.ts'
import { errorMessage } from '../base/runtime/error-message.ts'
import { noteStoredBackup, readBackupState } from '../operator/backup-state.ts'
import { backupName } from './backup/backup-store.ts'
import { createBackup } from './backup/create-backup.ts'
import { expiredBackups } from './backup/expired-backups.ts'
import { createCommand, createSession, type Session } from './command.ts'
import { bytesText } from './output.ts'
import { type Backups, withBackups } from './with-backups.ts'

export function backupRunCommand(): Command {
  return createCommand('run', 'Make the backup of the schedule now, and remove those that are not kept', [
    'backup run',
    'backup run --json',
  ]).action(async options => {
    const session = createSession(options)
    await withBackups(session, async backups => {
      const place = placeName(backups.plan.place)
      const made = await makeBackup(session, backups)
      const removed = await removeExpired(session, backups)
      session.output.result(
        { place, ...made, removed },
        `Wrote ${made.name} (${bytesText(made.bytes)}) to ${place}${removed.length > 0 ? `, and removed ${removed.join(', ')}` : ''}.`,
      )
    })
  })
}

async function makeBackup({ config, output }: Session, { plan, store, owner, pool }: Backups) {
  // What is left over costs space, and no backup.
  await store.sweep().catch(error => output.note(errorMessage(error)))
  const startedAt = new Date()
  const name = backupName(startedAt)
  const { dataDir, configFile } = config
  const { includesSecrets } = plan
  const source = { dataDir, owner, configFile, includesSecrets, startedAt, version: packageJson.version }
  const { entries, hasMasterKey, hasConfiguration } = createBackup(source, output.note)
  const bytes = await store.write(name, entries)
  await noteStoredBackup(pool, { place: placeName(plan.place), name, startedMs: startedAt.getTime(), bytes })
  return {
    name,
    bytes,
    started_at: startedAt.toISOString(),
    has_master_key: hasMasterKey,
    has_configuration: hasConfiguration,
  }
}

/** Returns the names of the backups that were removed. */
async function removeExpired({ output }: Session, { plan, store, pool }: Backups): Promise<string[]> {
  const { test } = await readBackupState(pool)
  if (test !== null && test.problem !== null) {
    output.note('No backup is removed until one was restored in a test: the last test failed.')
    return []
  }
  const expired = expiredBackups(await store.list(), {
    days: plan.keepDays,
    weeks: plan.keepWeeks,
    proven: test?.name ?? null,
  })
  for (const { name } of expired) await store.remove(name)
  return expired.map(({ name }) => name)
}
