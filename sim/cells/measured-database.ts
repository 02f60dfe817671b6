import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { readCpuMicros, startTreeCpuWatch } from '../../bench/process-usage.ts'
import { embeddedCluster, newLogin } from '../../src/base/db/embedded-cluster.ts'
import { migrate } from '../../src/base/db/migrate.ts'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { SOCKET_PORT } from '../../src/base/db/postgres-socket.ts'
import { queryRow } from '../../src/base/db/query-row.ts'

/** A PostgreSQL of its own, as a cell has it, with one connection that is measured. */
export interface MeasuredDatabase {
  /** One connection of the role that owns the tables. */
  readonly pool: Pool
  checkpoint(): Promise<void>
  /** Vacuums these tables, or all: there is no autovacuum. */
  vacuum(tables?: readonly string[]): Promise<void>
  /** Rewrites these tables without dead rows. */
  rewrite(tables: readonly string[]): Promise<void>
  /** Starts to measure. The returned function gives what was used since. */
  startUse(): Promise<() => Promise<DatabaseUse>>
  /** The rows and the bytes, with indexes, of each table that has rows; a partitioned table is one. */
  readTables(): Promise<ReadonlyMap<string, TableSize>>
  close(): Promise<void>
}

export interface DatabaseUse {
  readonly walBytes: number
  /** CPU of the measured connection. */
  readonly cpuUs: number
  /** CPU of the other processes of PostgreSQL: the writers, the checkpointer and other connections. */
  readonly othersCpuUs: number
}

export interface TableSize {
  readonly rows: number
  readonly bytes: number
}

/**
 * Starts a PostgreSQL with the settings of a cell: logical WAL, fsync and whole pages in the WAL after a checkpoint, as by default.
 * It neither vacuums nor begins a checkpoint by itself, so that both are measured apart.
 */
export async function startMeasuredDatabase(dir: string): Promise<MeasuredDatabase> {
  const cluster = embeddedCluster(dir)
  const login = newLogin()
  await cluster.create(login)
  appendFileSync(join(cluster.directory, 'pg_hba.conf'), 'local all postgres trust\n')
  const host = await cluster.start({
    wal_level: 'logical',
    autovacuum: 'off',
    checkpoint_timeout: '1d',
    max_wal_size: '16GB',
  })
  const postmasterPid = cluster.runningPid()
  if (postmasterPid === undefined) throw new Error('PostgreSQL does not run.')
  const server = { host, port: SOCKET_PORT, database: login.database }
  const connection = { ...server, user: login.user, password: login.password }
  await migrate(connection)
  // A busy machine must only make a measurement slow.
  const patient = { max: 1, statementTimeoutMs: 0, lockTimeoutMs: 0, connectTimeoutMs: 0 }
  const pool = createPool(connection, { ...patient, applicationName: 'measured' })
  await pool.query('SET idle_in_transaction_session_timeout = 0')
  const superuser = createPool({ ...server, user: 'postgres' }, { ...patient, applicationName: 'measuring' })
  const { pid } = await queryRow<{ pid: number }>(pool, 'SELECT pg_backend_pid() AS pid')
  const readLsn = async () => {
    const { lsn } = await queryRow<{ lsn: string }>(superuser, 'SELECT pg_current_wal_insert_lsn()::text AS lsn')
    return lsn
  }

  return {
    pool,
    async checkpoint() {
      await superuser.query('CHECKPOINT')
    },
    async vacuum(tables = []) {
      await pool.query(`VACUUM ${tables.join(', ')}`)
    },
    async rewrite(tables) {
      await pool.query(`VACUUM FULL ${tables.join(', ')}`)
    },
    async startUse() {
      const ofAll = startTreeCpuWatch([postmasterPid])
      const startUs = readCpuMicros(pid) ?? 0
      const startLsn = await readLsn()
      return async () => {
        const cpuUs = (readCpuMicros(pid) ?? 0) - startUs
        const allCpuUs = ofAll() ?? 0
        const { bytes } = await queryRow<{ bytes: number }>(
          superuser,
          'SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::float8 AS bytes',
          [startLsn],
        )
        return { walBytes: bytes, cpuUs, othersCpuUs: allCpuUs - cpuUs }
      }
    },
    async readTables() {
      const { counting } = await queryRow<{ counting: string }>(superuser, COUNT_ROWS)
      const { rows } = await superuser.query<{ name: string } & TableSize>(counting)
      return new Map(rows.map(({ name, ...size }) => [name, size]))
    },
    async close() {
      await pool.end()
      await superuser.end()
      await cluster.stop()
    },
  }
}

/** Returns a statement that counts the rows of each table: estimates are wrong without autovacuum. */
const COUNT_ROWS = `
  SELECT 'SELECT name, sum(bytes)::float8 AS bytes, sum(rows)::float8 AS rows FROM ('
    || string_agg(format('SELECT %L AS name, pg_total_relation_size(%L::regclass) AS bytes, count(*) AS rows FROM %s',
      coalesce(i.inhparent, c.oid)::regclass, c.oid::regclass, c.oid::regclass), ' UNION ALL ')
    || ') t GROUP BY name HAVING sum(rows) > 0' AS counting
  FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace`
