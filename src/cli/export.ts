import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import { ForeignMigration, pendingMigrations } from '../base/db/migrate.ts'
import { openDatabase } from '../base/db/open-database.ts'
import { createPool, type Sql, transaction } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { usdText } from '../base/domain/money.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { quoteForShell } from '../base/runtime/quote-for-shell.ts'
import { hasDatabase } from '../start/has-database.ts'
import { EXPORT_FORMAT, type ExportDescription, exportBooks } from './backup/export-books.ts'
import { createCommand, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { noDatabase } from './with-database.ts'

export function exportCommand(): Command {
  return createCommand(
    'export',
    'Write the books of a database that this version cannot upgrade to a file, for an import',
    ['export books.ndjson.gz'],
  )
    .argument('<file>', 'file to write, which must not exist')
    .action(async (file: string, options) => {
      const { config, output } = createSession(options)
      const path = resolve(file)
      if (existsSync(path)) throw new Failure(`${path} exists. Choose another name.`)
      if (!hasDatabase(config)) throw noDatabase(config)
      const database = await openDatabase({
        databaseUrl: config.databaseUrl ?? undefined,
        ownerUrl: config.databaseOwnerUrl ?? undefined,
        dataDir: config.dataDir,
        log: { info: output.note, warn: output.note },
      })
      const pool = createPool(database.owner, { max: 1, applicationName: 'switchyard export', statementTimeoutMs: 0 })
      try {
        // Outside of the transaction: the check of the rights takes its read-only state for that of a standby.
        await requireExportable(pool)
        const done = await transaction(pool, async sql => {
          await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
          return exportBooks(sql, path, join(config.dataDir, 'journal'), await describe(sql))
        })
        const { customers, rows, creditNanos, unsettled } = done
        output.result(
          { file: path, customers, rows, credit_usd: usdText(creditNanos), unsettled },
          `Wrote ${path}: ${customers} customers with ${usdText(creditNanos)} USD of credit.`,
        )
        if (unsettled > 0) output.note(`${unsettled} charges that only the journal has are taken from the balances.`)
        output.note('It contains all customer data: keep it where only you can read it.')
        output.note(
          `Import it into a new data directory, with the same master key: SWITCHYARD_DATA=<directory> ${ownCommand(`import ${quoteForShell(path)}`)}`,
        )
      } finally {
        await pool.end()
        await database.close()
      }
    })
}

/**
 * Throws Failure when a start upgrades the database, or when it has never been a database of a gateway. Throws like
 * `pendingMigrations` when it cannot say: for a standby, a newer database, or a role without rights.
 */
async function requireExportable(sql: Sql): Promise<void> {
  const { rows } = await sql.query<{ isEarly: boolean }>(
    "SELECT to_regclass('app_user') IS NOT NULL AS \"isEarly\" WHERE to_regclass('ledger_entry') IS NOT NULL",
  )
  const [books] = rows
  if (books === undefined) throw new Failure('This database has no books of a gateway, so there is nothing to export.')
  const isUpgradable = await pendingMigrations(sql).then(
    () => true,
    error => {
      if (error instanceof ForeignMigration) return false
      throw error
    },
  )
  if (isUpgradable)
    throw new Failure(`A start upgrades this database as it is, so it needs no export: ${ownCommand('start')}`)
  if (!books.isEarly)
    throw new Failure(
      'This database was made by a commit of after 2026-11-23 that was never a version. Start that commit, or use its backup.',
    )
}

async function describe(sql: Sql): Promise<ExportDescription> {
  const { name } = await queryRow<{ name: string }>(sql, 'SELECT name FROM migration ORDER BY version DESC LIMIT 1')
  return {
    format: EXPORT_FORMAT,
    export_id: randomUUID(),
    made_at: new Date().toISOString(),
    switchyard: packageJson.version,
    migration: name,
    master_key_mark: await readEarlyMark(sql),
  }
}

/** Where early versions kept the mark of the master key. */
async function readEarlyMark(sql: Sql): Promise<string | null> {
  const { rows } = await sql.query<{ value: string }>("SELECT value FROM installation WHERE name = 'master_key_mark'")
  return rows[0]?.value ?? null
}
