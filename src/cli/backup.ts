import { existsSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Command } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import { type Connection, openDatabase } from '../base/db/open-database.ts'
import { createPool } from '../base/db/pool.ts'
import { noteBackup } from '../operator/last-backup.ts'
import type { Config } from '../start/config/config.ts'
import { hasDatabase } from '../start/has-database.ts'
import { createBackup } from './backup/create-backup.ts'
import { createCommand, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { noDatabase } from './with-database.ts'

export function backupCommand(): Command {
  return createCommand('backup', 'Write a backup of everything into one file, while the gateway serves', [
    'backup',
    'backup /var/backups/switchyard/',
    'backup monday.tar.zst --json',
  ])
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
      const source = { dataDir, owner, configFile, startedAt, version: packageJson.version }
      const { bytes, hasMasterKey } = await createBackup(path, source, output.note)
        .then(async created => {
          await noteInDatabase(owner, startedAt).catch(() =>
            output.note('The backup could not be noted in the database.'),
          )
          return created
        })
        .finally(close)
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
}

/** Lets the gateway know: without a backup for days, operators have an alarm. */
async function noteInDatabase(owner: Connection, startedAt: Date): Promise<void> {
  const pool = createPool(owner, { max: 1, applicationName: 'switchyard backup' })
  await noteBackup(pool, startedAt).finally(() => pool.end())
}

function requireEmbedded(config: Config): void {
  if (config.databaseUrl !== null)
    throw new Failure(
      'The database is the one of DATABASE_URL, and this command can only back up the embedded PostgreSQL. Use the means of your PostgreSQL: pg_dump, pgBackRest, or snapshots by your provider. Keep a copy of the master key too.',
    )
  if (!hasDatabase(config)) throw noDatabase(config)
}

/** The absolute path of the backup. */
function pathOf(file: string | undefined, startedAt: Date): string {
  const name = `switchyard-${startedAt.toISOString().slice(0, 19).replaceAll(':', '')}Z.tar.zst`
  if (file === undefined) return resolve(name)
  const isDirectory = file.endsWith('/') || (existsSync(file) && statSync(file).isDirectory())
  const path = isDirectory ? resolve(join(file, name)) : resolve(file)
  if (!existsSync(dirname(path))) throw new Failure(`The directory ${dirname(path)} does not exist. Create it first.`)
  return path
}

/** Formats a size as `12.3 MB`, in powers of 1000. */
function bytesText(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  return `${power === 0 ? bytes : (bytes / 1000 ** power).toFixed(1)} ${units[power]}`
}
