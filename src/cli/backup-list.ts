import type { Command } from 'commander'
import { placeName } from '../base/domain/backup-plan.ts'
import { openStore } from './backup/open-store.ts'
import { createCommand, createSession } from './command.ts'
import { bytesText, timeText } from './output.ts'
import { table } from './table.ts'
import { requirePlan } from './with-backups.ts'

export function backupListCommand(): Command {
  return createCommand('list', 'List the backups at the place of the schedule, the newest first', [
    'backup list',
    'backup list --json',
  ]).action(async options => {
    const { config, output } = createSession(options)
    const { place } = requirePlan(config)
    const backups = await (await openStore(place)).list()
    output.result(
      {
        place: placeName(place),
        backups: backups.map(({ name, startedMs, bytes }) => ({
          name,
          started_at: new Date(startedMs).toISOString(),
          bytes,
        })),
      },
      table(
        ['name', 'began (UTC)', 'size'],
        backups.map(({ name, startedMs, bytes }) => [name, timeText(new Date(startedMs)), bytesText(bytes)]),
        `There is no backup in ${placeName(place)}.`,
      ),
    )
  })
}
