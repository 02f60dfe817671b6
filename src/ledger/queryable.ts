/**
 * What the ledger needs of a pool or of a client inside a transaction: a connection is taken, the statement runs, rows come back.
 * Statements that are sent often carry a `name` and are prepared once per connection.
 */
export interface Queryable {
  query(statement: Statement): Promise<{ rows: unknown[][] }>
}

export interface Statement {
  readonly name?: string
  readonly text: string
  readonly values: unknown[]
  /** Rows as arrays of columns. */
  readonly rowMode: 'array'
  /** Milliseconds after which the client gives up and drops the connection. */
  readonly query_timeout?: number
}
