import { resolve } from 'node:path'
import type { Command } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { usdText } from '../base/domain/money.ts'
import { valueAt } from '../base/runtime/collections.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { findMasterKeys } from '../base/secrets/master-key.ts'
import { importBooks, type ReadExport, readExport } from './backup/import-books.ts'
import { createCommand, createSession, type Session } from './command.ts'
import { Failure } from './failure.ts'
import { withDatabase } from './with-database.ts'

export function importCommand(): Command {
  return createCommand('import', 'Bring the books of an export into a new database; repeats change nothing', [
    'import books.ndjson.gz',
  ])
    .argument('<file>', 'file that export wrote')
    .action(async (file: string, options) => {
      const session = createSession(options)
      const { output } = session
      const exported = await readExport(resolve(file))
      requireSameMasterKey(session, exported)
      const work = (pool: Parameters<Parameters<typeof withDatabase>[1]>[0]) =>
        transaction(pool, sql => importBooks(sql, exported))
      const { isNew, customers, keys, hosters } = await withDatabase(session, work, { mayCreate: true })
      const credit = usdText(
        exported.balances.reduce((sum, { kind, amountNanos }) => (kind === 'customer' ? sum + amountNanos : sum), 0n),
      )
      output.result(
        { imported: isNew, customers, keys, hosters, credit_usd: credit },
        isNew
          ? `Imported ${customers} customers with ${credit} USD of credit, ${keys} keys and ${hosters} hosters.`
          : 'This export was imported before. Nothing was changed.',
      )
      if (!isNew) return
      output.note(`Check the books: ${ownCommand('ledger audit')}`)
      output.note(`Let the operator set a password: ${ownCommand('operator link')}`)
    })
}

/** The keys of hosters are encrypted with it. */
function requireSameMasterKey({ config }: Session, { description, rows }: ReadExport): void {
  const areSealed = valueAt(rows, 'hoster_endpoint').some(row => /"key_sealed": "/.test(row))
  if (!areSealed || description.master_key_mark === null) return
  if (findMasterKeys(config)?.use(description.master_key_mark)) return
  throw new Failure(
    `The keys of hosters in this export are encrypted with another master key. Copy master.key of the exported installation to ${config.dataDir}, or set SWITCHYARD_MASTER_KEY to its value.`,
  )
}
