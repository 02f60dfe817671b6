import { type Pool, type Sql, transaction, withQueryTimeout } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import { DAY_MS } from '../../../base/domain/durations.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { type Clock, systemClock } from '../../../base/runtime/scheduler.ts'
import type { CreditEvidence } from '../credit-evidence.ts'
import { type AuditCheck, type AuditFinding, auditChecks, type SlicedCheck } from './audit-checks.ts'
import type { AuditProgress, AuditProgressStore } from './audit-progress.ts'
import { type AuditSlice, planAudit, type SliceSizes } from './audit-slices.ts'

export interface AuditOptions {
  readonly signal?: AbortSignal
  /** Lets an audit continue an earlier one that was interrupted. Without it, every audit begins at the first slice. */
  readonly progress?: AuditProgressStore
  /** Called before the first check when an earlier audit is continued. */
  readonly onContinue?: (earlier: AuditProgress) => void
  readonly sizes?: SliceSizes
  /** Checks evidence of credit. Without it, those checks find nothing. */
  readonly isEvidence?: CreditEvidence['isValid'] | undefined
  readonly clock?: Clock
  /** The shortest time between two savings of the progress. Default 2,000: short audits save nothing. */
  readonly saveEveryMs?: number
}

const SAVE_EVERY_MS = 2_000
/** What was checked longer ago is checked again. */
const PROGRESS_MS_MAX = DAY_MS
const EXAMPLES_MAX = 5

/**
 * Checks every invariant of the money on all rows of the running system. Returns one finding per check, in order. The
 * ledger is correct when no finding has violations. Works in slices, each check of a slice in a short snapshot of its
 * own: while a snapshot is open, PostgreSQL removes no deleted row, and admissions get slower. Takes no row locks. The
 * pool must have no statement timeout. Rejects soon after the signal aborts, even when PostgreSQL does not answer;
 * cancelling needs a second connection of the pool.
 */
export async function audit(pool: Pool, options: AuditOptions = {}): Promise<AuditFinding[]> {
  const { signal, progress, sizes, clock = systemClock, saveEveryMs = SAVE_EVERY_MS } = options
  const earlier = await loadProgress(progress, clock.epochMs())
  if (earlier !== undefined) options.onContinue?.(earlier)
  let state: AuditProgress = earlier ?? {
    startedAtEpochMs: clock.epochMs(),
    slices: await planAudit(pool, sizes),
    done: 0,
    findings: checkNames.map(name => ({ name, violations: 0, examples: [] })),
  }
  let savedMs = clock.monotonicMs()
  let hasSaved = earlier !== undefined
  while (state.done < state.slices.length) {
    signal?.throwIfAborted()
    const found = await checkSlice(pool, elementAt(state.slices, state.done), options.isEvidence, signal)
    state = {
      ...state,
      done: state.done + 1,
      findings: state.findings.map(finding => merged(finding, found.get(finding.name))),
    }
    if (state.done < state.slices.length && clock.monotonicMs() - savedMs >= saveEveryMs) {
      await progress?.save(state)
      hasSaved = true
      savedMs = clock.monotonicMs()
    }
  }
  if (hasSaved) await progress?.save(null)
  return [...state.findings]
}

const checkNames = Object.keys(auditChecks) as AuditCheck[]

async function loadProgress(store: AuditProgressStore | undefined, nowMs: number): Promise<AuditProgress | undefined> {
  const progress = await store?.load()
  if (progress === undefined) return undefined
  // A time in the future comes from a wrong clock.
  const isRecent = Math.abs(nowMs - progress.startedAtEpochMs) < PROGRESS_MS_MAX
  // Another version may have other checks.
  const hasSameChecks = progress.findings.map(({ name }) => name).join() === checkNames.join()
  return isRecent && hasSameChecks ? progress : undefined
}

function merged(finding: AuditFinding, more: Omit<AuditFinding, 'name'> | undefined): AuditFinding {
  if (more === undefined || more.violations === 0) return finding
  return {
    name: finding.name,
    violations: finding.violations + more.violations,
    examples: [...finding.examples, ...more.examples].slice(0, EXAMPLES_MAX),
  }
}

const CANCEL_TIMEOUT_MS = 2_000

/** Runs the checks of a slice. Rejects soon after `signal` aborts. */
async function checkSlice(
  pool: Pool,
  slice: AuditSlice,
  isEvidence: AuditOptions['isEvidence'],
  signal: AbortSignal | undefined,
): Promise<Map<AuditCheck, Omit<AuditFinding, 'name'>>> {
  const cut = new AbortController()
  let pid: number | undefined
  let timer: NodeJS.Timeout | undefined
  const cancel = () => {
    // A check may run for minutes, and a stopping gateway must not wait for it.
    if (pid !== undefined) {
      withQueryTimeout(pool, CANCEL_TIMEOUT_MS)
        .query('SELECT pg_cancel_backend($1)', [pid])
        .catch(() => {})
    }
    // A hanging PostgreSQL does not cancel the check, and the statements have no timeout here.
    timer = setTimeout(() => cut.abort(), CANCEL_TIMEOUT_MS)
  }
  signal?.addEventListener('abort', cancel)
  const checkAll = async (db: Sql) => {
    await db.query('SET TRANSACTION READ ONLY')
    pid = (await queryRow<{ pid: number }>(db, 'SELECT pg_backend_pid() AS pid')).pid
    const found = new Map<AuditCheck, Omit<AuditFinding, 'name'>>()
    for (const name of checkNames) {
      const check: SlicedCheck = auditChecks[name]
      if (check.by !== slice.by) continue
      signal?.throwIfAborted()
      found.set(
        name,
        await (check.isEvidence ? checkEvidence(db, check, slice, isEvidence) : runCheck(db, check, slice)),
      )
    }
    return found
  }
  try {
    return await transaction(pool, checkAll, cut.signal)
  } finally {
    signal?.removeEventListener('abort', cancel)
    clearTimeout(timer)
  }
}

/** One statement: at the isolation level READ COMMITTED it has a snapshot of its own. */
async function runCheck(db: Sql, { by, sql }: SlicedCheck, slice: AuditSlice): Promise<Omit<AuditFinding, 'name'>> {
  const { violations, examples } = await queryRow<{ violations: number; examples: string[] | null }>(
    db,
    `SELECT count(*)::integer AS violations, (array_agg(id ORDER BY id))[1:${EXAMPLES_MAX}] AS examples FROM (${sql}) AS wrong(id)`,
    by === 'all' ? [] : [slice.from, slice.to],
  )
  return { violations, examples: examples ?? [] }
}

async function checkEvidence(
  db: Sql,
  { by, sql }: SlicedCheck,
  slice: AuditSlice,
  isEvidence: AuditOptions['isEvidence'],
): Promise<Omit<AuditFinding, 'name'>> {
  if (isEvidence === undefined) return { violations: 0, examples: [] }
  const { rows } = await db.query<{ id: string; facts: (string | null)[]; mac: Buffer | null }>(
    sql,
    by === 'all' ? [] : [slice.from, slice.to],
  )
  const wrong = rows.filter(({ facts, mac }) => !isEvidence(facts, mac))
  return { violations: wrong.length, examples: wrong.slice(0, EXAMPLES_MAX).map(({ id }) => id) }
}
