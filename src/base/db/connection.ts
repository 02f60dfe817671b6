import type pg from 'pg'

/** The settings of a connection, for `createPool` or to spread into a pg client's config. */
export type Connection = Readonly<pg.ClientConfig> & {
  /** A pooler is between the gateway and PostgreSQL: see `beginPooledSession`. */
  readonly viaPooler?: boolean
}
