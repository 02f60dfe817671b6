import { existsSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Command } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import { openDatabase } from '../base/db/open-database.ts'
import { createPool } from '../base/db/pool.ts'
import { noteBackup } from '../operator/backup-state.ts'
import { writeArchive } from './backup/archive.ts'
import { backupName } from './backup/backup-store.ts'
import { type BackupSource, createBackup } from './backup/create-backup.ts'
import { backupListCommand } from './backup-list.ts'
import { backupRunCommand } from './backup-run.ts'
import { backupVerifyCommand } from './backup-verify.ts'
import { createCommand, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { bytesText } from './output.ts'
import { requireEmbedded } from './with-backups.ts'

export function backupCommand(): Command {
  const command = createCommand('backup', 'Write a backup of everything into one file, while the gateway serves', [
    'backup',
    'backup /var/backups/switchyard/',
    'backup monday.tar.zst --json',
  ])
    .enablePositionalOptions()
    .helpCommand(false)
    .argument('[file]', 'file to write, or a directory; default: a name with the time, in the current directory')
    .action(async (file: string | undefined, options) => {
      const { config, output } = createSession(options)
      requireEmbedded(config)
      const startedAt = new Date()
      const path = pathOf(file, startedAt)
      // Without migrating: this may be the backup before an upgrade.
      const log = { info: output.note, warn: output.note }
      const { dataDir, configFile } = config
      const { owner, close } = await openDatabase({ dataDir, log })
      const source = { dataDir, owner, configFile, includesSecrets: true, startedAt, version: packageJson.version }
      const { bytes, hasMasterKey } = await write(path, source, output.note).finally(close)
      output.result(
        {
          file: path,
          bytes,
          started_at: startedAt.toISOString(),
          has_master_key: hasMasterKey,
          has_configuration: configFile !== null,
        },
        `Wrote ${path} (${bytesText(bytes)}).`,
      )
      if (hasMasterKey)
        output.note('It contains the master key and all customer data: keep it where only you can read it.')
      else if (config.masterKey !== null)
        output.note('It does not contain the master key, which is in SWITCHYARD_MASTER_KEY: keep that too.')
    })
  for (const inner of [backupRunCommand(), backupListCommand(), backupVerifyCommand()]) command.addCommand(inner)
  return command
}

async function write(path: string, source: BackupSource, note: (message: string) => void) {
  const { entries, hasMasterKey } = createBackup(source, note)
  const bytes = await writeArchive(path, entries)
  await noteInDatabase(source).catch(() => note('The backup could not be noted in the database.'))
  return { bytes, hasMasterKey }
}

/** Lets the gateway know: without a backup for days, operators have an alarm. */
async function noteInDatabase({ owner, startedAt }: BackupSource): Promise<void> {
  const pool = createPool(owner, { max: 1, applicationName: 'switchyard backup' })
  await noteBackup(pool, startedAt).finally(() => pool.end())
}

/** The absolute path of the backup. */
function pathOf(file: string | undefined, startedAt: Date): string {
  const name = backupName(startedAt)
  if (file === undefined) return resolve(name)
  const isDirectory = file.endsWith('/') || (existsSync(file) && statSync(file).isDirectory())
  const path = isDirectory ? resolve(join(file, name)) : resolve(file)
  if (!existsSync(dirname(path))) throw new Failure(`The directory ${dirname(path)} does not exist. Create it first.`)
  return path
}
