import { createPool, type Pool, type Sql, withQueryTimeout } from '../../base/db/pool.ts'
import type { ComposeContext } from './compose-context.ts'

/** The connection pools of one node, one for each kind of work. */
export interface Database {
  /** Admissions and settlements. A separate pool, so that a slow report never delays an admission. */
  readonly money: Pool
  /** Reports, alerts, catalog. */
  readonly general: Pool
  /** `general` with a short timeout, for lookups that a client waits for. */
  readonly lookups: Sql
  /**
   * People, keys, payments and what operators order, as the desk role. The others cannot write that. Never call a
   * function of the job queue here: the gateway role owns those, and could replace them.
   */
  readonly desk: Pool
  /** `desk` with a short timeout, for lookups that a client waits for. */
  readonly deskLookups: Sql
  /** Exports and erasures of what is kept of a person or customer, which may take minutes, as the desk role. */
  readonly personalData: Pool
  /** The job queue: one connection listens for jobs, two take jobs and record their end. */
  readonly queue: Pool
  /**
   * Heartbeats, in a separate pool so that this node never looks dead because another pool is full. The second
   * connection reclaims leases of dead nodes.
   */
  readonly heartbeat: Pool
  /** Audits: their statements may take minutes. */
  readonly audit: Pool
}

/** How long a client waits for a lookup before or after its answer. Equals the limit for a hold. */
const LOOKUP_TIMEOUT_MS = 2_000

/** Creates the pools of this node. None connects before its first statement. */
export function createDatabase({ config, connection, desk, log, started }: ComposeContext): Database {
  const onIdleError = (error: Error) => log.warn({ err: error }, 'a database connection broke')
  const pool = (
    applicationName: string,
    options: { max: number; statementTimeoutMs?: number; forQueue?: true },
    role = connection,
  ) => {
    const created = createPool(role, { applicationName, onIdleError, ...options })
    started.defer(() => created.end())
    return created
  }
  const { moneyConnections, generalConnections } = config.postgres
  const money = pool('switchyard money', { max: moneyConnections })
  const general = pool('switchyard', { max: generalConnections, statementTimeoutMs: 30_000 })
  const deskPool = pool('switchyard desk', { max: 4 }, desk)
  return {
    money,
    general,
    lookups: withQueryTimeout(general, LOOKUP_TIMEOUT_MS),
    desk: deskPool,
    deskLookups: withQueryTimeout(deskPool, LOOKUP_TIMEOUT_MS),
    personalData: pool('switchyard personal data', { max: 3, statementTimeoutMs: 300_000 }, desk),
    queue: pool('switchyard jobs', { max: 3, forQueue: true }),
    heartbeat: pool('switchyard heartbeat', { max: 2 }),
    audit: pool('switchyard audit', { max: 2, statementTimeoutMs: 0 }),
  }
}
