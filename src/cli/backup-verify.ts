import { join } from 'node:path'
import type { Command } from 'commander'
import { errorMessage } from '../base/runtime/error-message.ts'
import { noteRestoreTest } from '../operator/backup-state.ts'
import { UnreadableArchive } from './backup/archive.ts'
import { openStore } from './backup/open-store.ts'
import { checkBackup } from './backup/restore-backup.ts'
import { NoSpace, testRestore } from './backup/restore-test.ts'
import { storedBackup } from './backup/stored-backup.ts'
import { createCommand, createSession, type Session } from './command.ts'
import { evidenceOf, findServerKeys } from './require-master-key.ts'
import { type Backups, requirePlan, withBackups } from './with-backups.ts'

export function backupVerifyCommand(): Command {
  return createCommand('verify', 'Read a backup of the schedule and compare its checksums, or restore it as a test', [
    'backup verify',
    'backup verify --restore',
    'backup verify switchyard-2026-11-23T031500Z.tar.zst',
  ])
    .argument('[name]', 'name of a backup; default: the newest')
    .option('--restore', 'also restore it into a temporary directory, start PostgreSQL there and audit the ledger')
    .action(async (name: string | undefined, options) => {
      const session = createSession(options)
      const { config, output } = session
      if (options.restore === true) return await withBackups(session, backups => restoreAndNote(session, backups, name))
      const source = await storedBackup(await openStore(requirePlan(config).place), name ?? 'latest')
      const { files } = await checkBackup(source)
      output.result(
        { backup: source.name, restored: false, files, checks: null },
        `${source.name} is complete: ${files} files.`,
      )
    })
}

async function restoreAndNote(session: Session, backups: Backups, name = 'latest'): Promise<void> {
  const { config, output } = session
  const { plan, store, pool, databaseBytes } = backups
  const source = await storedBackup(store, name)
  const startMs = performance.now()
  const note = (problem: string | null) =>
    noteRestoreTest(pool, {
      name: source.name.slice(source.name.lastIndexOf('/') + 1),
      atMs: Date.now(),
      elapsedMs: Math.round(performance.now() - startMs),
      problem,
    })
  const keys = await findServerKeys(session, pool)
  try {
    const checks = await testRestore(source, {
      directory: join(plan.testDirectory ?? config.dataDir, 'switchyard-restore-test'),
      databaseBytes,
      isEvidence: keys && evidenceOf(keys).isValid,
      log: { info: () => {}, warn: output.note },
    })
    await note(null)
    output.result(
      { backup: source.name, restored: true, files: null, checks },
      `${source.name} was restored as a test, and all ${checks} checks of its ledger passed.`,
    )
  } catch (error) {
    // These say nothing about the backup.
    if (!(error instanceof UnreadableArchive || error instanceof NoSpace)) await note(errorMessage(error))
    throw error
  }
}
