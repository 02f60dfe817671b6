import { randomBytes } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { auditLedger } from '../../src/jobs/audit-ledger.ts'
import { readLastAudit, recordAudit } from '../../src/money/ledger/audit/last-audit.ts'
import { createCreditEvidence } from '../../src/money/ledger/credit-evidence.ts'
import { startTestApp, type TestApp } from '../harness/app.ts'
import { createTestDatabase } from '../harness/database.ts'

const evidence = createCreditEvidence(fixedKey(randomBytes(32)))

async function metricOf(gateway: TestApp, name: string): Promise<number> {
  const text = await gateway.metrics()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)![1])
}

test('every node reports the last audit of any node, with its violations', async () => {
  const database = await createTestDatabase()
  const nodes = [await startTestApp({ database }), await startTestApp({ database })]
  try {
    await nodes[0]!.customer()
    const metrics = (name: string) => Promise.all(nodes.map(node => metricOf(node, `switchyard_ledger_audit_${name}`)))
    // Adds the same job as the timetable, repeatedly. The pause after an audit is nine times as long as the audit, which is a
    // minute where a busy machine took seven seconds for it, so the record says that it took no time.
    const audited = async () => {
      await database.pool.query(
        `UPDATE installation SET value = jsonb_set(value::jsonb, '{elapsedMs}', '0')::text WHERE name = 'last_ledger_audit'`,
      )
      await database.pool.query(
        `SELECT graphile_worker.add_job('audit_ledger', queue_name => 'audit', job_key => 'audit_ledger', max_attempts => 1)`,
      )
      return metrics('violations')
    }
    const eventually = { interval: 100 }
    const beganS = systemClock.epochMs() / 1000
    await database.pool.query('UPDATE balance SET posted_nanos = posted_nanos + 1')
    await expect.poll(audited, eventually).toEqual([1, 1])
    for (const atS of await metrics('last_success_timestamp_seconds')) expect(atS).toBeGreaterThanOrEqual(beganS)
    await database.pool.query('UPDATE balance SET posted_nanos = posted_nanos - 1')
    await expect.poll(audited, eventually).toEqual([0, 0])
  } finally {
    await Promise.all(nodes.map(node => node.close()))
    await database.drop()
  }
})

test('violations are in the log, with their ids', async () => {
  const database = await createTestDatabase()
  const pool = createPool(database.connection, { max: 2, applicationName: 'audit', statementTimeoutMs: 0 })
  const log = { info: vi.fn(), error: vi.fn() }
  let nowMs = Date.UTC(2026, 10, 21)
  const clock = { epochMs: () => nowMs, monotonicMs: () => performance.now() }
  const run = () => {
    nowMs += 3_600_000
    return auditLedger({ pool, evidence, clock, log }, new AbortController().signal)
  }
  await run()
  expect(log.info).toHaveBeenCalledWith(expect.objectContaining({ checks: expect.any(Number) }), expect.any(String))
  expect(log.error).not.toHaveBeenCalled()
  await pool.query(`INSERT INTO ledger_tx (kind, ref) VALUES ('settle', 'planted')`)
  await run()
  expect(log.error).toHaveBeenCalledWith(
    expect.objectContaining({
      violated: [{ name: 'transactions_have_entries', violations: 1, examples: [expect.stringMatching(/^\d+$/)] }],
    }),
    expect.any(String),
  )
  expect(await readLastAudit(pool)).toMatchObject({ violations: 1 })
  await pool.end()
  await database.drop()
})

test('an audit is followed by a pause of nine times its duration', async () => {
  const database = await createTestDatabase()
  const pool = createPool(database.connection, { max: 2, applicationName: 'audit', statementTimeoutMs: 0 })
  const log = { info: vi.fn(), error: vi.fn() }
  const startMs = Date.UTC(2026, 10, 21)
  let nowMs = startMs
  const clock = { epochMs: () => nowMs, monotonicMs: () => performance.now() }
  await recordAudit(pool, { atEpochMs: startMs, elapsedMs: 190_000, violations: 0 })
  for (const minutes of [5, 10, 28, 29]) {
    nowMs = startMs + minutes * 60_000
    await auditLedger({ pool, evidence, clock, log }, new AbortController().signal)
  }
  expect(log.info).toHaveBeenCalledTimes(1)
  expect(await readLastAudit(pool)).toMatchObject({ atEpochMs: startMs + 29 * 60_000 })
  await pool.end()
  await database.drop()
})

test('a shutdown cancels the running audit, which then records nothing', async () => {
  const database = await createTestDatabase()
  const pool = createPool(database.connection, {
    max: 2,
    applicationName: 'audit',
    statementTimeoutMs: 0,
    lockTimeoutMs: 0,
  })
  const log = { info: vi.fn(), error: vi.fn() }
  const stopping = new AbortController()
  const holder = await database.pool.pg.connect()
  // The first checks wait for this lock, as they would for a large table.
  await holder.query('BEGIN; LOCK TABLE ledger_entry IN ACCESS EXCLUSIVE MODE')
  const audited = auditLedger({ pool, evidence, clock: systemClock, log }, stopping.signal)
  const waiting = `SELECT FROM pg_locks WHERE NOT granted AND relation = 'ledger_entry'::regclass
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
  await expect.poll(async () => (await database.pool.query(waiting)).rows.length).toBe(1)
  stopping.abort()
  await audited
  expect([log.info.mock.calls, log.error.mock.calls]).toEqual([[], []])
  await holder.query('ROLLBACK')
  holder.release()
  expect(await readLastAudit(pool)).toBeUndefined()
  await pool.end()
  await database.drop()
})
