/**
 * What a failed statement means:
 * - `rejected`: PostgreSQL rejects the data that was sent, and would again. Errors of our own code count as this too.
 * - `blocked`: the rows of this statement are locked or unreadable. Statements about other rows may succeed.
 * - `restarting`: PostgreSQL starts, stops or has crashed.
 * - `unavailable`: PostgreSQL, its machine or the connection cannot do the work, whatever the data is.
 *
 * Only `rejected` may end a charge. Everything else is an outage, after which the statement is sent again.
 */
export type DatabaseFault = 'rejected' | 'blocked' | 'restarting' | 'unavailable'

/**
 * The fault of each class of SQLSTATE, and of codes that differ from their class. This table alone decides which
 * statements are sent again. A class that is missing here counts as `unavailable`: to retry in vain costs less than to
 * drop a charge.
 */
const faults: Readonly<Record<string, DatabaseFault>> = {
  '08': 'unavailable', // the connection
  21: 'rejected', // more rows than a subquery may return
  22: 'rejected', // a value is malformed or out of range
  23: 'rejected', // a constraint
  25: 'unavailable', // read-only, as a standby during a failover; a transaction that took too long
  26: 'unavailable', // a prepared statement is gone
  28: 'unavailable', // the password or pg_hba.conf
  '3D': 'unavailable', // no such database: it is being restored
  '3F': 'unavailable', // no such schema: it is being restored
  40: 'blocked', // a deadlock or a serialization failure
  42: 'unavailable', // a table, column, function or right is missing: a restore drops and creates the schema
  44: 'rejected', // WITH CHECK OPTION
  53: 'unavailable', // out of disk, memory or connections
  54: 'rejected', // too long or too deeply nested
  55: 'unavailable', // the database allows no connections, for maintenance
  '55P03': 'blocked', // a lock was not obtained in time
  57: 'unavailable', // an operator intervened
  57014: 'blocked', // the statement took too long
  '57P01': 'restarting', // shutdown
  '57P02': 'restarting', // crash
  '57P03': 'restarting', // startup, recovery or shutdown
  58: 'unavailable', // an error of the disk or the operating system
  P0: 'rejected', // raised by a function of ours
  XX: 'blocked', // damaged data, or a bug of PostgreSQL
}

/** Classifies anything that a statement or a connection to PostgreSQL threw. */
export function faultOf(error: unknown): DatabaseFault {
  if (!(error instanceof Error) || bugs.some(Bug => error instanceof Bug)) return 'rejected'
  const code = codeOf(error)
  // Errors of the socket and of the driver (EPIPE, ECONNREFUSED, "Connection terminated", "Query read timeout") carry
  // no SQLSTATE.
  if (code === undefined || !sqlState.test(code)) return 'unavailable'
  return faults[code] ?? faults[code.slice(0, 2)] ?? 'unavailable'
}

/**
 * Whether the error says that PostgreSQL cannot be reached or is out of service, so that everything that uses it fails
 * alike. False for errors of other connections, and of single rows and statements.
 */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = codeOf(error)
  if (code === 'database_unavailable' || isDatabaseAway(error.cause)) return true
  const isFromDatabase =
    (code !== undefined && sqlState.test(code)) || brokenConnections.has(error) || isOfDriver(error)
  return isFromDatabase && ['restarting', 'unavailable'].includes(faultOf(error))
}

/** Errors of sockets do not say what they were connected to. */
const brokenConnections = new WeakSet<Error>()

/** Notes an error of a connection to PostgreSQL for `isDatabaseAway`. */
export function noteBrokenConnection(error: Error): void {
  brokenConnections.add(error)
}

/** Errors of node-postgres and of our pools about connections. They have no code. */
function isOfDriver({ message }: Error): boolean {
  return /^(Connection terminated|Query read timeout|timeout exceeded when trying to connect|no answer within \d+ ms$)/.test(
    message,
  )
}

/** Returns the code of an error of Node or PostgreSQL. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && error.code !== undefined ? String(error.code) : undefined
}

const bugs = [TypeError, RangeError, ReferenceError, SyntaxError]

/** Five characters with at least one digit. Codes of the system such as EPIPE have letters only. */
const sqlState = /^(?=.*[0-9])[0-9A-Z]{5}$/
