import { NodeFenced } from './ledger-store.ts'

/**
 * Whether the same statement may succeed when it is sent again: the connection broke, the server is starting,
 * stopping or out of resources, a lock was not obtained, PostgreSQL ended this transaction to resolve a
 * deadlock, or the schema is missing. Any other error is about the data and will not change.
 */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) return false
  // The node registers again with its next heartbeat.
  if (error instanceof NodeFenced) return true
  const code = (error as { code?: unknown }).code
  // Errors of the socket and of the driver (EPIPE, ECONNREFUSED, "Connection terminated", "Query read
  // timeout") carry no SQLSTATE.
  if (typeof code !== 'string' || !sqlState.test(code)) return true
  return transientClasses.has(code.slice(0, 2)) || transientCodes.has(code)
}

/** Five characters with at least one digit. Codes of the system such as EPIPE have letters only. */
const sqlState = /^(?=.*[0-9])[0-9A-Z]{5}$/

/**
 * 08 connection, 28 authorization, 40 rollback (serialization, deadlock), 53 resources, 57 operator
 * intervention, 58 system.
 */
const transientClasses: ReadonlySet<string> = new Set(['08', '28', '40', '53', '57', '58'])
const transientCodes: ReadonlySet<string> = new Set([
  '55P03', // lock not available
  '25006', // read only: this is a standby, during a failover
  '3D000', // no such database: it is being restored
  '55000', // the database allows no connections: ALTER DATABASE ... ALLOW_CONNECTIONS false, for maintenance
  // No such function, table or schema, or no right to it. No row causes these: a restore drops and creates
  // the schema.
  '42883',
  '42P01',
  '3F000',
  '42501',
])
