import type pg from 'pg'
import type { Connection } from './connection.ts'
import { STANDBY } from './primary-client.ts'
import { onOwnConnection, queryOnce } from './query-once.ts'
import { queryRow } from './query-row.ts'
import { sessionDefaults } from './session-settings.ts'

/**
 * Prepares a session behind a pooler: it passes on neither the settings with which a connection starts, nor the report
 * of a standby. `own` are the settings of this connection that differ from the default. Throws for a standby.
 */
export async function beginPooledSession(
  client: pg.ClientBase,
  own: Readonly<Record<string, string | number>> = {},
): Promise<void> {
  const settings = Object.entries({ ...sessionDefaults, ...own })
  const { isStandby } = await queryRow<{ isStandby: boolean }>(client, BEGIN_SESSION, [
    settings.map(([name]) => name),
    settings.map(([, value]) => String(value)),
  ])
  if (isStandby) throw new Error(STANDBY)
}

const BEGIN_SESSION = `
  SELECT pg_is_in_recovery() AS "isStandby", count(set_config(name, value, false))
    FROM unnest($1::text[], $2::text[]) AS setting (name, value)`

/**
 * Finds out whether a pooler gives each connection a session of its own, and leaves none of its settings to the next
 * one. Returns what the operator must change, otherwise undefined.
 */
export async function poolerFault(connection: Connection): Promise<string | undefined> {
  const pids = { first: new Set<number>(), second: new Set<number>() }
  let leftPid = 0
  await onOwnConnection(connection, async first => {
    await onOwnConnection(connection, async second => {
      // In transaction mode, PgBouncer gives both the session that was used last, or with server_round_robin each in turn.
      for (let turn = 0; turn < 3; turn++) {
        pids.first.add(await pidOf(first))
        pids.second.add(await pidOf(second))
      }
    })
    leftPid = await pidOf(first)
    await first.query("SELECT set_config('switchyard.left_by', 'another', false)")
  })
  const isShared = pids.first.size > 1 || pids.second.size > 1 || !pids.first.isDisjointFrom(pids.second)
  if (isShared)
    return 'shares the sessions of PostgreSQL between connections, by transaction or statement, but LISTEN, advisory locks, prepared statements and settings need a session for each: set pool_mode = session for this database'
  const next = await queryOnce<{ pid: number; left: string | null }>(connection, LEFT)
  if (next.pid === leftPid && next.left === 'another')
    return 'leaves the settings of a connection to the next one: set server_reset_query = DISCARD ALL'
  return undefined
}

const LEFT = "SELECT pg_backend_pid() AS pid, current_setting('switchyard.left_by', true) AS left"

async function pidOf(client: pg.ClientBase): Promise<number> {
  return (await queryRow<{ pid: number }>(client, 'SELECT pg_backend_pid() AS pid')).pid
}
