import { resolve } from 'node:path'
import type { Command } from 'commander'
import { ownCommand } from '../base/runtime/own-command.ts'
import { quoteForShell } from '../base/runtime/quote-for-shell.ts'
import type { Config } from '../start/config/config.ts'
import { findRunningServer } from '../start/running-server.ts'
import { fileSource } from './backup/archive.ts'
import { openStore } from './backup/open-store.ts'
import { checkBackup, restoreBackup } from './backup/restore-backup.ts'
import { storedBackup } from './backup/stored-backup.ts'
import { createCommand, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { timeText } from './output.ts'
import { requirePlan } from './with-backups.ts'

export function restoreCommand(): Command {
  return createCommand('restore', 'Restore a backup into an empty data directory', [
    'restore switchyard-2026-11-23T031500Z.tar.zst',
    'restore monday.tar.zst --data /var/lib/switchyard',
    'restore monday.tar.zst --check',
    'restore latest --stored',
  ])
    .argument('<file>', 'backup that switchyard backup wrote')
    .option('--stored', 'take the backup of this name, or latest, from backup.to of the configuration')
    .option('--data <directory>', 'data directory, new or empty; default: SWITCHYARD_DATA, else ./data')
    .option('--check', 'only read the backup and compare its checksums; write nothing')
    .action(async (file: string, options) => {
      const { config, output } = createSession(options)
      const source =
        options.stored === true
          ? await storedBackup(await openStore(requirePlan(config).place), file)
          : fileSource(resolve(file))
      const path = source.name
      const isCheck = options.check === true
      const dataDir = options.data === undefined ? config.dataDir : resolve(options.data)
      if (!isCheck) requireRestorable(config, dataDir)
      const log = { info: output.note, warn: output.note }
      const restored = isCheck ? await checkBackup(source) : await restoreBackup(source, dataDir, log)
      const { description, files, hasMasterKey, hasConfiguration } = restored
      const startedAt = timeText(new Date(description.started_at))
      output.result(
        {
          file: path,
          restored: !isCheck,
          data_dir: isCheck ? null : dataDir,
          files,
          started_at: description.started_at,
          switchyard: description.switchyard,
          has_master_key: hasMasterKey,
          has_configuration: hasConfiguration,
        },
        isCheck
          ? `${path} is complete: ${files} files, begun ${startedAt} UTC by Switchyard ${description.switchyard}.`
          : `Restored the backup of ${startedAt} UTC into ${dataDir}.`,
      )
      if (!hasMasterKey)
        output.note(
          'It has no master key: set SWITCHYARD_MASTER_KEY to the value of the gateway that it was made from.',
        )
      if (isCheck) return
      if (hasConfiguration)
        output.note(
          `Its configuration is ${dataDir}/switchyard.yaml: move that file to where you start the gateway, or pass --config.`,
        )
      const variable = dataDir === config.dataDir ? '' : `SWITCHYARD_DATA=${quoteForShell(dataDir)} `
      output.note(`Start the gateway: ${variable}${ownCommand('start')}`)
      output.note(`Then check the books: ${variable}${ownCommand('ledger audit')}`)
    })
}

function requireRestorable({ databaseUrl }: Config, dataDir: string): void {
  if (databaseUrl !== null)
    throw new Failure(
      'DATABASE_URL is set, so a gateway would not use what this command restores. Unset it, or restore your PostgreSQL with its own means.',
    )
  const running = findRunningServer(dataDir)
  if (running !== undefined)
    throw new Failure(
      `A Switchyard server is running on ${dataDir}, at port ${running.port}. Stop it, and restore into an empty directory.`,
    )
}
