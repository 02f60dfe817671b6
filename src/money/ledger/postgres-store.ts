import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { readWindows } from './accounts/read-windows.ts'
import { arrayLiteral, quoted } from './array-literal.ts'
import type { KeySpend, RefusalCode } from './leases/admission.ts'
import { declareNodesDead, reclaimDeadLeases } from './leases/reclaim-dead-leases.ts'
import {
  type Heartbeat,
  type LeaseRequest,
  type LeaseVerdict,
  type LedgerStore,
  NodeFenced,
  type OpenLease,
  type SettleEffect,
} from './ledger-store.ts'

export interface PostgresStoreDeps {
  /**
   * For admissions, settlements and hand-backs. Each uses one connection at a time. Nothing else should use
   * this pool.
   */
  readonly money: Sql
  /** For heartbeats and reclaiming. A busy pool must not make a healthy node look dead. */
  readonly heartbeat: Sql
  /** For tests: replaces PostgreSQL's clock for the minute and day windows, epoch ms. */
  readonly windowClock?: () => number
}

/** The ledger in PostgreSQL. Each call that moves money is one function of sql/functions/money. */
export function createPostgresStore({ money, heartbeat, windowClock }: PostgresStoreDeps): LedgerStore {
  return {
    async registerNode(nodeId) {
      await heartbeat.query('SELECT register_node($1)', [nodeId])
    },
    async heartbeat(nodeId, number) {
      const { rows } = await heartbeat.query<Omit<Heartbeat, 'isAlive'>>(HEARTBEAT, [nodeId, number])
      return rows[0] === undefined ? DEAD : { isAlive: true, ...rows[0] }
    },
    retireNode: nodeId => declareNodesDead(heartbeat, [nodeId]),
    reclaim: options => reclaimDeadLeases(heartbeat, options),
    async admit(nodeId, requests, skipsLocked = false) {
      try {
        const { rows } = await money.query<VerdictRow>(
          ADMIT_BATCH,
          admissionColumns(nodeId, windowClock?.() ?? null, requests, skipsLocked),
        )
        return rows.map(verdictOf)
      } catch (error) {
        throw (error as { code?: unknown }).code === 'SY001' ? new NodeFenced(nodeId) : error
      }
    },
    async settle(nodeShard, settlements, skipsLocked = false) {
      const { rows } = await money.query<{ odd_request: string; effect: SettleEffect }>(SETTLE_BATCH, [
        nodeShard,
        settlements,
        skipsLocked,
      ])
      return new Map(rows.map(row => [row.odd_request, row.effect]))
    },
    async handBack(returns, skipsLocked = false) {
      const { rows } = await money.query<{ locked: string }>(HAND_BACK, [
        arrayLiteral(returns, r => r.leaseId),
        arrayLiteral(returns, r => r.keepNanos),
        arrayLiteral(returns, r => r.slotsUsed),
        skipsLocked,
      ])
      return new Set(rows.map(({ locked }) => locked))
    },
    async noteUse(uses) {
      const { rows } = await money.query<{ locked: string }>(NOTE_USE, [
        arrayLiteral(uses, use => use.leaseId),
        arrayLiteral(uses, use => use.slotsUsed),
        arrayLiteral(uses, use => use.owedNanos),
      ])
      return new Set(rows.map(({ locked }) => locked))
    },
    windowsOf: (nodeId, customerIds) => readWindows(money, nodeId, customerIds),
    async areSettled(requests) {
      const { missing } = await queryRow<{ missing: number }>(heartbeat, MISSING_ROWS, [
        requests.map(({ customerId }) => customerId),
        requests.map(({ requestId }) => requestId),
      ])
      return missing === 0
    },
    async leasesOf(nodeId) {
      const { rows } = await heartbeat.query<OpenLease>(
        'SELECT lease_id AS "leaseId", slots IS NOT NULL AS "isBulk" FROM lease WHERE node_id = $1',
        [nodeId],
      )
      return rows
    },
    async release(leaseIds) {
      const { rows } = await money.query<{ lease: string; is_locked: boolean }>('SELECT * FROM release_leases($1)', [
        leaseIds,
      ])
      return new Map(rows.map(({ lease, is_locked }) => [lease, is_locked ? 'locked' : 'released']))
    },
  }
}

const HEARTBEAT = {
  name: 'heartbeat',
  text: `WITH before AS (SELECT heartbeats FROM node_heartbeat WHERE node_id = $1 FOR UPDATE),
      own AS (UPDATE node_heartbeat h SET heartbeats = greatest(before.heartbeats, $2) FROM before WHERE h.node_id = $1 RETURNING before.heartbeats)
    SELECT own.heartbeats AS before,
      ARRAY(SELECT lease_id FROM lease l WHERE l.node_id = $1 AND l.recalled) AS recalled,
      (SELECT coalesce(json_agg(json_build_object('nodeId', h.node_id, 'heartbeats', h.heartbeats)), '[]')
        FROM node_heartbeat h WHERE h.node_id <> $1) AS others,
      EXISTS (SELECT FROM node WHERE state = 'dead') AS "hasDeadNodes"
    FROM own`,
}

const DEAD: Heartbeat = { isAlive: false, before: 0, recalled: [], others: [], hasDeadNodes: false }

const MISSING_ROWS = {
  name: 'missing_rows',
  text: `SELECT count(*)::integer AS missing FROM unnest($1::uuid[], $2::uuid[]) AS r(customer, request)
    WHERE NOT EXISTS (SELECT FROM usage_event u WHERE u.customer_id = r.customer AND u.request_id = r.request
      AND u.outcome <> 'node_died')`,
}

const ADMIT_BATCH = {
  name: 'admit_batch',
  text: 'SELECT * FROM admit_batch($1, to_timestamp($2::float8 / 1000), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)',
}

function admissionColumns(
  nodeId: string,
  windowNowMs: number | null,
  requests: readonly LeaseRequest[],
  skipsLocked: boolean,
): unknown[] {
  return [
    nodeId,
    windowNowMs,
    arrayLiteral(requests, r => ('slots' in r ? r.leaseId : r.requestId)),
    arrayLiteral(requests, r => r.customerId),
    arrayLiteral(requests, r => ('slots' in r ? null : r.keyId)),
    arrayLiteral(requests, r => ('slots' in r ? null : quoted(r.modelId))),
    arrayLiteral(requests, r => r.limits.requestsPerMinute),
    arrayLiteral(requests, r => r.limits.requestsPerDay),
    arrayLiteral(requests, r => r.limits.dailySpendCapNanos),
    arrayLiteral(requests, r => ('slots' in r ? null : (r.keyLimit?.limitNanos ?? null))),
    arrayLiteral(requests, r => ('slots' in r ? null : (r.keyLimit?.reset ?? null))),
    arrayLiteral(requests, r => ('slots' in r ? r.wantNanos : r.ask === null ? null : r.ask.wantNanos)),
    arrayLiteral(requests, r => ('slots' in r ? r.floorNanos : r.ask === null ? null : r.ask.floorNanos)),
    arrayLiteral(requests, r => ('slots' in r ? r.slots : null)),
    arrayLiteral(requests, r => ('slots' in r ? null : (r.countedUntilEpochMs ?? null))),
    skipsLocked,
    arrayLiteral(requests, r => ('slots' in r ? null : (r.memberLimit?.personId ?? null))),
    arrayLiteral(requests, r => ('slots' in r ? null : (r.memberLimit?.limitNanos ?? null))),
    arrayLiteral(requests, r => ('slots' in r ? null : (r.memberLimit?.reset ?? null))),
  ]
}

interface VerdictRow {
  readonly item: number
  readonly verdict: RefusalCode | 'granted' | 'counted' | 'no_account' | 'no_bulk' | 'locked'
  readonly held: bigint | null
  readonly slots: number | null
  readonly posted: bigint
  readonly free: bigint
  readonly cap_left: bigint
  readonly key_spent: bigint | null
  readonly key_left: bigint | null
  readonly key_ends_ms: number | null
  readonly member_spent: bigint | null
  readonly member_left: bigint | null
  readonly member_ends_ms: number | null
  readonly held_elsewhere: boolean
  readonly nodes: number
  readonly minute_used: number
  readonly day_used: number
  readonly minute_made: number
  readonly day_made: number
  readonly own_leases: readonly string[] | null
  readonly minute_ends_ms: number
  readonly day_ends_ms: number
  readonly now_ms: number
}

function verdictOf(row: VerdictRow): LeaseVerdict {
  const item = row.item - 1
  const { verdict } = row
  if (verdict === 'no_account' || verdict === 'no_bulk' || verdict === 'locked') return { item, kind: verdict }
  const windows = {
    minuteUsed: row.minute_made,
    dayUsed: row.day_made,
    minuteCounted: row.minute_used,
    dayCounted: row.day_used,
    ownLeases: row.own_leases ?? [],
    minuteEndsAtEpochMs: row.minute_ends_ms,
    dayEndsAtEpochMs: row.day_ends_ms,
  }
  if (verdict === 'counted') return { item, kind: verdict, windows }
  const databaseNowMs = row.now_ms
  const [freeNanos, capLeftNanos] = [row.free, row.cap_left]
  if (verdict === 'granted') {
    const { slots, nodes } = row
    return { item, kind: verdict, heldNanos: row.held!, slots, freeNanos, capLeftNanos, nodes, windows, databaseNowMs }
  }
  return {
    item,
    kind: 'refused',
    code: verdict,
    postedNanos: row.posted,
    freeNanos,
    capLeftNanos,
    key: spendOf(row.key_spent, row.key_left, row.key_ends_ms),
    member: spendOf(row.member_spent, row.member_left, row.member_ends_ms),
    windows,
    databaseNowMs,
    isHeldElsewhere: row.held_elsewhere,
    nodes: row.nodes,
  }
}

function spendOf(spent: bigint | null, left: bigint | null, endsAtEpochMs: number | null): KeySpend | null {
  return spent === null ? null : { spentNanos: spent, leftNanos: left!, endsAtEpochMs }
}

const SETTLE_BATCH = { name: 'settle_batch', text: 'SELECT * FROM settle_batch($1, $2, $3)' }

const HAND_BACK = { name: 'hand_back_leases', text: 'SELECT * FROM hand_back_leases($1, $2, $3, $4) AS locked' }

const NOTE_USE = { name: 'note_lease_use', text: 'SELECT note_lease_use($1, $2, $3) AS locked' }
