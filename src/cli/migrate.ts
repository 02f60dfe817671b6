import type { Command } from 'commander'
import { createCommand, createSession } from './command.ts'
import { withDatabase } from './with-database.ts'

export function migrateCommand(): Command {
  return createCommand('migrate', 'Bring the database to this version, as a start does, without starting the gateway', [
    'migrate',
    'migrate --json',
  ]).action(async options => {
    const { config, output } = createSession(options)
    const applied = await withDatabase({ config, output }, async (_pool, applied) => applied, { mayServe: true })
    output.result(
      { applied },
      applied.length > 0 ? 'The database has this version now.' : 'The database has this version already.',
    )
  })
}
