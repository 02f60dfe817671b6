import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { ownCommand } from '../runtime/own-command.ts'
import { codeOf } from './database-fault.ts'
import type { Connection } from './open-database.ts'
import type { Sql } from './pool.ts'
import { beginPooledSession } from './pooled-session.ts'
import { queryRow } from './query-row.ts'
import { startOf } from './session-settings.ts'

/** The SQL that ships with this version: `migrations/` and `functions/`. */
export const sqlDir = fileURLToPath(new URL('../../../sql', import.meta.url))

const THE_FUNCTIONS = 'the functions of this version'

/** What `migrate` applied, or would apply: names such as `0001_tables.sql`, and `THE_FUNCTIONS`. */
export type Applied = readonly string[]

/**
 * Brings the database to the schema of this version, in one transaction, after the two tables that list what is applied:
 * 1. the tables: files `migrations/NNNN_*.sql` that are not applied yet, in order;
 * 2. functions, views, triggers and rights: all files below `functions/`, whenever one of them or a table changed. They begin
 *    with CREATE OR REPLACE. A migration drops what is gone or takes other parameters;
 * 3. the parts of the applied migrations below the line `AFTER_FUNCTIONS`.
 *
 * Any number of processes may call it at once: one migrates, the others wait. While nodes use the tables, it waits for
 * no lock longer than `LOCK_TIMEOUT_MS`, so that nobody waits behind it, and begins again.
 *
 * Throws, with the schema as it was, when migrations are due while gateways of another version serve, when a file fails, when an applied file was edited or is gone, or when a newer
 * version migrated the database.
 *
 * @param onWait called when another process is migrating or holds a lock; the wait has no time limit, since tables may have
 *   millions of rows
 */
export async function migrate(
  connection: Connection,
  directory: string = sqlDir,
  onWait: () => void = () => {},
): Promise<Applied> {
  const files = await readSqlFiles(directory)
  const client = new pg.Client({ ...startOf(connection), application_name: 'switchyard migrate' })
  client.on('error', () => {})
  await client.connect()
  try {
    if (connection.viaPooler) await beginPooledSession(client)
    await requireRights(client)
    const { locked } = await queryRow<{ locked: boolean }>(client, 'SELECT pg_try_advisory_lock($1) AS locked', [
      MIGRATION_LOCK,
    ])
    if (!locked) {
      onWait()
      await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    }
    await client.query(CREATE_TABLES)
    const pending = pendingOf(files, await readState(client))
    if (pending.migrations.length > 0) await requireNoGateways(client)
    if (pending.names.length > 0) await applyWhenUnlocked(client, files, pending, onWait)
    return pending.names
  } catch (error) {
    throw explained(error)
  } finally {
    // Ends the session, which releases the lock.
    await client.end().catch(() => {})
  }
}

/** The database has migrations that this version does not know by their number and text, and is not newer than it. */
export class ForeignMigration extends Error {}

/** Returns what `migrate` would apply. Changes nothing; throws what `migrate` would throw before its first change. */
export async function pendingMigrations(sql: Sql, directory: string = sqlDir): Promise<Applied> {
  try {
    await requireRights(sql)
    return pendingOf(await readSqlFiles(directory), await readState(sql)).names
  } catch (error) {
    throw explained(error)
  }
}

/**
 * Throws when the role cannot create the schema. Run it first, so that the error names the missing right and no
 * partly migrated database remains.
 */
async function requireRights(sql: Sql): Promise<void> {
  const { role, login, database, is_read_only, may_create, schema, schema_of_tables } = await queryRow<{
    role: string
    login: string
    database: string
    is_read_only: boolean
    may_create: boolean
    schema: string | null
    schema_of_tables: string | null
  }>(
    sql,
    `
    SELECT current_user AS role, session_user AS login, current_database() AS database, current_setting('transaction_read_only') = 'on' AS is_read_only,
           coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
             AND (has_database_privilege(current_database(), 'CREATE') OR to_regnamespace('graphile_worker') IS NOT NULL) AS may_create,
           current_schema() AS schema,
           (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relname = 'migration' AND c.relkind = 'r'
               AND ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 ORDER BY attnum)
                 = ARRAY['version', 'name', 'checksum', 'applied_at']
             ORDER BY n.nspname <> current_schema() LIMIT 1) AS schema_of_tables`,
  )
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

/** Other sessions wait behind a lock that waits. */
const LOCK_TIMEOUT_MS = 500
const RETRY_AFTER_MS = 500

/** What stands below this line of a migration runs when the functions of this version are in place. */
const AFTER_FUNCTIONS = /^-- -+ with the functions of this version$/m

/**
 * Grows with each landed change below `sql/functions`, so that an older version does not put its functions in the place
 * of newer ones: see test/upgrade/landed-sql.test.ts.
 */
export const FUNCTIONS_VERSION = 7

const CREATE_TABLES = `
CREATE TABLE IF NOT EXISTS migration (
  version int PRIMARY KEY,
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS migration_functions (
  version int NOT NULL,
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL
)`

interface SqlFile {
  /** Below the directory, such as `0001_tables.sql` or `functions/money/admit_batch.sql`. */
  readonly name: string
  readonly text: string
  readonly checksum: string
}

/** The SQL of a directory such as `sqlDir`. */
export interface SqlFiles {
  /** The first has version 1. */
  readonly migrations: readonly SqlFile[]
  readonly functions: readonly SqlFile[]
  /** The SHA-256 of all functions. */
  readonly checksum: string
  /** For each migration: the SHA-256 of the texts that it had until 2026-11-28, when its functions stood in it. */
  readonly former: ReadonlyMap<string, readonly string[]>
}

interface AppliedMigration {
  readonly version: number
  readonly name: string
  readonly checksum: string
}

interface FunctionsState {
  readonly version: number
  readonly checksum: string
}

interface State {
  readonly applied: readonly AppliedMigration[]
  readonly functions: FunctionsState | undefined
}

interface Pending {
  readonly migrations: readonly SqlFile[]
  /** Migrations that were applied with a former text: their checksum is replaced. */
  readonly former: readonly SqlFile[]
  readonly names: Applied
}

/** Throws when the migrations are not numbered from 1 on without gaps. */
export async function readSqlFiles(directory: string): Promise<SqlFiles> {
  const migrations = await readSql(join(directory, 'migrations'))
  for (const [index, { name }] of migrations.entries())
    if (Number(/^(\d{4})_[a-z0-9_-]+\.sql$/.exec(name)?.[1]) !== index + 1)
      throw new Error(
        `${join(directory, 'migrations', name)}: migrations are numbered without gaps. Rename this file to ${String(index + 1).padStart(4, '0')}_<name>.sql.`,
      )
  const functions = await readSql(join(directory, 'functions'))
  const former = new Map<string, string[]>()
  const list = await readFile(join(directory, 'former-migrations.sha256'), 'utf8').catch(unlessMissing(''))
  for (const [, checksum = '', name = ''] of list.matchAll(/^([0-9a-f]{64}) {2}(\S+)$/gm))
    former.set(name, [...(former.get(name) ?? []), checksum])
  return {
    migrations,
    functions,
    checksum: sha256(functions.map(({ name, checksum }) => `${checksum}  ${name}\n`).join('')),
    former,
  }
}

/** All files below the directory, in the order of their names. None if it is missing. */
async function readSql(directory: string): Promise<SqlFile[]> {
  const names = (await readdir(directory, { recursive: true }).catch(unlessMissing([]))).map(name =>
    name.replaceAll('\\', '/'),
  )
  return Promise.all(
    names
      .filter(name => name.endsWith('.sql'))
      .sort()
      .map(async name => {
        // A checkout on Windows may have changed the line endings. That does not count as an edit.
        const text = (await readFile(join(directory, name), 'utf8')).replaceAll('\r\n', '\n')
        return { name, text, checksum: sha256(text) }
      }),
  )
}

/** For `catch`: the value if a file or directory does not exist. Other errors are thrown. */
const unlessMissing =
  <Value>(value: Value) =>
  (error: unknown): Value => {
    if (codeOf(error) === 'ENOENT') return value
    throw error
  }

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

async function readState(sql: Sql): Promise<State> {
  const read = async <Row>(table: string, query: string) => {
    const { found } = await queryRow<{ found: boolean }>(sql, 'SELECT to_regclass($1) IS NOT NULL AS found', [table])
    return found ? (await sql.query<Row>(query)).rows : []
  }
  const [functions] = await read<FunctionsState>(
    'migration_functions',
    'SELECT version, checksum FROM migration_functions',
  )
  return {
    applied: await read<AppliedMigration>(
      'migration',
      'SELECT version, name, checksum FROM migration ORDER BY version',
    ),
    functions,
  }
}

function pendingOf(files: SqlFiles, { applied, functions }: State): Pending {
  const former = applied.flatMap((row, index) => {
    const file = requireSame(row, files, index)
    return row.checksum === file.checksum ? [] : [file]
  })
  if (functions !== undefined && functions.version > FUNCTIONS_VERSION)
    throw new Error(
      `The database is newer than this Switchyard: its functions have version ${functions.version}, and this version ends at ${FUNCTIONS_VERSION}. Start the version that applied them, or a later one.`,
    )
  const migrations = files.migrations.slice(applied.length)
  const isCurrent = migrations.length + former.length === 0 && functions?.checksum === files.checksum
  const renews = !isCurrent && files.functions.length > 0
  return { migrations, former, names: [...migrations.map(({ name }) => name), ...(renews ? [THE_FUNCTIONS] : [])] }
}

function requireSame({ version, name, checksum }: AppliedMigration, files: SqlFiles, index: number): SqlFile {
  const file = files.migrations[index]
  if (!file)
    throw new Error(
      `The database is newer than this Switchyard: it has migration ${name}, and this version ends at ${files.migrations.at(-1)?.name ?? 'none'}. Start the version that applied it, or a later one.`,
    )
  if (version !== index + 1 || file.name !== name)
    throw new ForeignMigration(
      `Migration ${name} was applied to this database, but this version has ${file.name} in its place. Restore the file; applied migrations are never renamed or removed.`,
    )
  if (file.checksum !== checksum && !files.former.get(name)?.includes(checksum))
    throw new ForeignMigration(
      `Migration ${name} was changed after it was applied to this database. If a version of before 2026-11-24 made this database, bring its books into a new one: ${ownCommand('export books.ndjson.gz')}, then, with SWITCHYARD_DATA or DATABASE_URL of the new one, ${ownCommand('import books.ndjson.gz')}. If you edited the file, restore it and make the change in a new migration.`,
    )
  return file
}

/**
 * Throws when a gateway is alive: PostgreSQL would refuse the charges of an older version, in a table or a record that
 * has other columns now. One that was killed has no heartbeat any more; the clocks of machines count for nothing here.
 */
async function requireNoGateways(client: pg.Client): Promise<void> {
  const before = await readHeartbeats(client)
  if (before.size === 0) return
  await delay(HEARTBEATS_WATCHED_MS)
  const after = await readHeartbeats(client)
  const alive = [...after].filter(([node, heartbeats]) => before.get(node) !== heartbeats)
  if (alive.length > 0)
    throw new Error(
      `${alive.length} ${alive.length === 1 ? 'gateway uses' : 'gateways use'} this database, and this version changes its tables. Stop every gateway of the earlier version first; the database is as it was.`,
    )
}

/** Three heartbeats. */
const HEARTBEATS_WATCHED_MS = 3_000

async function readHeartbeats(client: pg.Client): Promise<ReadonlyMap<string, number>> {
  const { found } = await queryRow<{ found: boolean }>(
    client,
    "SELECT to_regclass('node_heartbeat') IS NOT NULL AND to_regclass('node') IS NOT NULL AS found",
  )
  if (!found) return new Map()
  const { rows } = await client.query<{ node: string; heartbeats: number }>(
    "SELECT node_id AS node, heartbeats FROM node JOIN node_heartbeat USING (node_id) WHERE state = 'alive'",
  )
  return new Map(rows.map(({ node, heartbeats }) => [node, heartbeats]))
}

async function applyWhenUnlocked(
  client: pg.Client,
  files: SqlFiles,
  pending: Pending,
  onWait: () => void,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await apply(client, files, pending)
    } catch (error) {
      const { cause = error } = error as Error
      if (!(cause instanceof pg.DatabaseError && LOCK_CODES.includes(cause.code ?? ''))) throw error
      if (attempt === 1) onWait()
      await delay(RETRY_AFTER_MS)
    }
  }
}

/** lock_not_available and deadlock_detected. */
const LOCK_CODES: readonly string[] = ['55P03', '40P01']

async function apply(client: pg.Client, files: SqlFiles, { migrations, former }: Pending): Promise<void> {
  await client.query('BEGIN')
  try {
    // Functions may be created before those that they call.
    await client.query(`SET LOCAL check_function_bodies = off; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
    for (const file of migrations) {
      await run(client, `Migration ${file.name}`, partsOf(file).tables)
      const version = files.migrations.indexOf(file) + 1
      const row = [version, file.name, file.checksum]
      await client.query('INSERT INTO migration (version, name, checksum) VALUES ($1, $2, $3)', row)
    }
    for (const { name, checksum } of former)
      await client.query('UPDATE migration SET checksum = $2 WHERE name = $1', [name, checksum])
    if (files.functions.length > 0) await applyFunctions(client, files)
    for (const file of migrations) await run(client, `Migration ${file.name}`, partsOf(file).after)
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {})
    throw error
  }
}

/** Each with the lines above it left empty, so that the line of an error is that of the file. */
function partsOf({ text }: SqlFile): { tables: string; after: string } {
  const at = AFTER_FUNCTIONS.exec(text)?.index ?? text.length
  return { tables: text.slice(0, at), after: text.slice(0, at).replaceAll(/[^\n]+/g, '') + text.slice(at) }
}

async function applyFunctions(client: pg.Client, { functions, checksum }: SqlFiles): Promise<void> {
  for (const { name, text } of functions) await run(client, `sql/functions/${name}`, text)
  await client.query('DELETE FROM migration_functions')
  await client.query('INSERT INTO migration_functions VALUES ($1, $2, now())', [FUNCTIONS_VERSION, checksum])
  // A function that is replaced runs with the rights of its caller until these are given again.
  await client.query('SELECT renew_gateway_rights()')
}

async function run(client: pg.Client, what: string, statements: string): Promise<void> {
  try {
    await client.query(statements)
  } catch (error) {
    throw new Error(`${what} failed${where(error, statements)}: ${(error as Error).message}`, { cause: error })
  }
}

function where(error: unknown, text: string): string {
  if (!(error instanceof pg.DatabaseError) || error.position === undefined) return ''
  return ` at line ${text.slice(0, Number(error.position) - 1).split('\n').length}`
}
