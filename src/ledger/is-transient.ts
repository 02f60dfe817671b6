/**
 * Whether sending the same statement again may succeed: the connection broke, the server is starting, stopping or out of room, a lock was
 * not obtained, a deadlock was resolved against us. Everything else PostgreSQL says is about the data or the statement and will not change.
 */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) return false
  const code = (error as { code?: unknown }).code
  // Errors of the socket and of the driver (ECONNREFUSED, "Connection terminated", "Query read timeout") carry no SQLSTATE.
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code)) return true
  return (
    transientClasses.has(code.slice(0, 2)) || code === LOCK_NOT_AVAILABLE || code === READ_ONLY || code === NO_DATABASE
  )
}

/** 08 connection, 28 authorization, 40 rollback (serialization, deadlock), 53 resources, 57 operator intervention, 58 system. */
const transientClasses: ReadonlySet<string> = new Set(['08', '28', '40', '53', '57', '58'])
const LOCK_NOT_AVAILABLE = '55P03'
/** Connected to a standby during a failover. */
const READ_ONLY = '25006'
const NO_DATABASE = '3D000'
