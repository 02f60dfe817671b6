import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { ownCommand } from '../runtime/own-command.ts'
import type { Connection } from './open-database.ts'
import { sessionSettings } from './session-settings.ts'

/** The migrations that ship with this version. */
export const migrationsDir = fileURLToPath(new URL('../../migrations', import.meta.url))

export interface Migration {
  /** The number from the first four digits of the file name, from 1. */
  readonly version: number
  /** The file name, such as `0001_tables.sql`. */
  readonly name: string
}

/**
 * Brings the database to the schema of this version: applies the files `NNNN_*.sql` of `directory` that are
 * not applied yet, in order, each in its own transaction. Any number of processes may call it at once: one
 * migrates, the others wait. Returns the migrations that this call applied.
 *
 * Throws, without changing anything, when an applied file was edited or is gone, or when the database was
 * migrated by a newer version. Throws when a file fails; that file and all later ones are then not applied.
 *
 * @param onWait called when another process is migrating; the wait has no time limit, since tables may have
 *   millions of rows
 */
export async function migrate(
  connection: Connection,
  directory: string = migrationsDir,
  onWait: () => void = () => {},
): Promise<Migration[]> {
  const files = await readMigrations(directory)
  const client = new pg.Client({ ...sessionSettings, ...connection, application_name: 'switchyard migrate' })
  client.on('error', () => {})
  await client.connect()
  try {
    await requireRights(client)
    const { rows } = await client.query<{ locked: boolean }>('SELECT pg_try_advisory_lock($1) AS locked', [
      MIGRATION_LOCK,
    ])
    if (!rows[0]!.locked) {
      onWait()
      await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    }
    await client.query(CREATE_TABLE)
    const { rows: applied } = await client.query<Applied>(SELECT_APPLIED)
    requireSameHistory(applied, files)
    for (const file of files.filter((file, index) => isFormer(applied[index], file))) await replaceFormer(client, file)
    const pending = files.slice(applied.length)
    for (const file of pending) await apply(client, file)
    return pending.map(({ version, name }) => ({ version, name }))
  } catch (error) {
    throw explained(error)
  } finally {
    // Ends the session, which releases the lock.
    await client.end().catch(() => {})
  }
}

/**
 * Returns the names of the migrations that `migrate` would apply. Changes nothing; throws what `migrate`
 * would throw before its first change.
 */
export async function pendingMigrations(sql: Reader, directory: string = migrationsDir): Promise<string[]> {
  try {
    await requireRights(sql)
    const files = await readMigrations(directory)
    const { rows: tables } = await sql.query("SELECT to_regclass('migration') IS NOT NULL AS found")
    const isNew = !(tables as { found: boolean }[])[0]!.found
    const applied = isNew ? [] : ((await sql.query(SELECT_APPLIED)).rows as Applied[])
    requireSameHistory(applied, files)
    return files.slice(applied.length).map(({ name }) => name)
  } catch (error) {
    throw explained(error)
  }
}

interface Reader {
  query(text: string): Promise<{ readonly rows: unknown[] }>
}

/**
 * Throws when the role cannot create the schema. Run it first, so that the error names the missing right and no
 * partly migrated database remains.
 */
async function requireRights(sql: Reader): Promise<void> {
  const { rows } = await sql.query(`
    SELECT current_user AS role, session_user AS login, current_database() AS database, current_setting('transaction_read_only') = 'on' AS is_read_only,
           coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
             AND (has_database_privilege(current_database(), 'CREATE') OR to_regnamespace('graphile_worker') IS NOT NULL) AS may_create,
           current_schema() AS schema,
           (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relname = 'migration' AND c.relkind = 'r'
               AND ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 ORDER BY attnum)
                 = ARRAY['version', 'name', 'checksum', 'applied_at']
             ORDER BY n.nspname <> current_schema() LIMIT 1) AS schema_of_tables`)
  const { role, login, database, is_read_only, may_create, schema, schema_of_tables } = rows[0] as {
    role: string
    login: string
    database: string
    is_read_only: boolean
    may_create: boolean
    schema: string | null
    schema_of_tables: string | null
  }
  if (is_read_only)
    throw new Error(
      `The database ${database} can only be read by the role ${role}: it is a standby, or default_transaction_read_only is on. Set DATABASE_URL to the primary.`,
    )
  // By default PostgreSQL searches a schema named like the role first. If one was created later, the database
  // would look empty.
  if (schema !== null && schema_of_tables !== null && schema !== schema_of_tables)
    throw new Error(
      `The tables are in the schema ${schema_of_tables} of the database ${database}, but the role ${role} would create new ones in ${schema}, which comes first in its search_path. Set the search_path: ALTER ROLE "${login}" IN DATABASE "${database}" SET search_path = "${schema_of_tables}"`,
    )
  if (!may_create)
    throw new Error(
      `The role ${role} may not create tables and schemas in the database ${database}. Make it the owner: ALTER DATABASE "${database}" OWNER TO "${role}"`,
    )
}

function explained(error: unknown): unknown {
  if (!(error instanceof pg.DatabaseError && error.code === INSUFFICIENT_PRIVILEGE)) return error
  return new Error(
    `PostgreSQL refused: ${error.message}. The role of DATABASE_URL must own the database and everything in it.`,
  )
}

const INSUFFICIENT_PRIVILEGE = '42501'

/** Any constant that no other lock of this database uses: "symg" in ASCII. */
export const MIGRATION_LOCK = 0x7379_6d67

const SELECT_APPLIED = 'SELECT version, name, checksum FROM migration ORDER BY version'

const CREATE_TABLE = `
CREATE TABLE IF NOT EXISTS migration (
  version int PRIMARY KEY,
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)`

type MigrationFile = Migration & { readonly text: string; readonly checksum: string }
type Applied = Migration & { readonly checksum: string }

async function readMigrations(directory: string): Promise<MigrationFile[]> {
  const names = (await readdir(directory)).filter(name => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name, index) => {
      const version = Number(/^(\d{4})_[a-z0-9_-]+\.sql$/.exec(name)?.[1])
      if (version !== index + 1)
        throw new Error(
          `${join(directory, name)}: migrations are numbered without gaps. Rename this file to ${String(index + 1).padStart(4, '0')}_<name>.sql.`,
        )
      // A checkout on Windows may have changed the line endings. That does not count as an edit.
      const text = (await readFile(join(directory, name), 'utf8')).replaceAll('\r\n', '\n')
      return { version, name, text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

function requireSameHistory(applied: readonly Applied[], files: readonly MigrationFile[]): void {
  for (const [index, { version, name, checksum }] of applied.entries()) {
    const file = files[index]
    if (!file)
      throw new Error(
        `The database is newer than this Switchyard: it has migration ${name}, and this version ends at ${files.at(-1)?.name ?? 'none'}. Start the version that applied it, or a later one.`,
      )
    if (file.version !== version || file.name !== name)
      throw new Error(
        `Migration ${name} was applied to this database, but this version has ${file.name} in its place. Restore the file; applied migrations are never renamed or removed.`,
      )
    if (file.checksum !== checksum && !isFormer(applied[index], file))
      throw new Error(
        `Migration ${name} was changed after it was applied to this database. If a version of before 2026-11-24 made this database, bring its books into a new one: ${ownCommand('export books.ndjson.gz')}, then, with SWITCHYARD_DATA or DATABASE_URL of the new one, ${ownCommand('import books.ndjson.gz')}. If you edited the file, restore it and make the change in a new migration.`,
      )
  }
}

/**
 * The SHA-256 of former texts of files, for databases that applied them before the text became final. The present text may
 * differ in its functions only.
 */
const FORMER_CHECKSUMS: Readonly<Record<string, string>> = {
  // 2026-11-23: the gateway role could create schemas.
  '0006_gateway_role.sql': 'f36b03eddfff87161c7d0d8bc7ea2999abf304134f8aa07c5dda612dffac1082',
}

function isFormer(applied: Applied | undefined, file: MigrationFile): boolean {
  return applied !== undefined && applied.checksum === FORMER_CHECKSUMS[file.name]
}

/** Gives a database that applied a former text of the file the functions of the present one. */
async function replaceFormer(client: pg.Client, file: MigrationFile): Promise<void> {
  const functions = file.text
    .replaceAll(/^CREATE FUNCTION /gm, 'CREATE OR REPLACE FUNCTION ')
    .replaceAll(/^CREATE TABLE /gm, 'CREATE TABLE IF NOT EXISTS ')
  await run(client, file, functions, 'UPDATE migration SET name = $2, checksum = $3 WHERE version = $1')
}

async function apply(client: pg.Client, file: MigrationFile): Promise<void> {
  await run(client, file, file.text, 'INSERT INTO migration (version, name, checksum) VALUES ($1, $2, $3)')
}

async function run(client: pg.Client, file: MigrationFile, statements: string, record: string): Promise<void> {
  try {
    await client.query('BEGIN')
    await client.query(statements)
    await client.query(record, [file.version, file.name, file.checksum])
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {})
    throw new Error(`Migration ${file.name} failed${where(error, file.text)}: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

function where(error: unknown, text: string): string {
  if (!(error instanceof pg.DatabaseError) || error.position === undefined) return ''
  return ` at line ${text.slice(0, Number(error.position) - 1).split('\n').length}`
}
