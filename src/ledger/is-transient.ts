import { NodeFenced } from './ledger-store.ts'

/**
 * Whether sending the same statement again may succeed: the connection broke, the server is starting, stopping or out of room, a lock was
 * not obtained, a deadlock was resolved against us, the schema is away. Everything else PostgreSQL says is about the data and will not change.
 */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) return false
  // The node registers anew with its next heartbeat.
  if (error instanceof NodeFenced) return true
  const code = (error as { code?: unknown }).code
  // Errors of the socket and of the driver (EPIPE, ECONNREFUSED, "Connection terminated", "Query read timeout") carry no SQLSTATE.
  if (typeof code !== 'string' || !sqlState.test(code)) return true
  return transientClasses.has(code.slice(0, 2)) || transientCodes.has(code)
}

/** Five characters, one of them a digit at least: EPIPE, EBUSY and their like are letters only. */
const sqlState = /^(?=.*[0-9])[0-9A-Z]{5}$/

/** 08 connection, 28 authorization, 40 rollback (serialization, deadlock), 53 resources, 57 operator intervention, 58 system. */
const transientClasses: ReadonlySet<string> = new Set(['08', '28', '40', '53', '57', '58'])
const transientCodes: ReadonlySet<string> = new Set([
  '55P03', // lock not available
  '25006', // read only: connected to a standby during a failover
  '3D000', // no such database: it is being restored
  '55000', // the database takes no connections: ALTER DATABASE ... ALLOW_CONNECTIONS false, for maintenance
  // No such function, table or schema, or no right to it: a restore drops and makes them anew, and no row is the cause.
  '42883',
  '42P01',
  '3F000',
  '42501',
])
