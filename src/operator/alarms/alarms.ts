import { HOUR_MS } from '../../base/domain/durations.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { joined, type Said, sentencesOf } from '../../base/domain/said.ts'
import { ownCommand } from '../../base/runtime/own-command.ts'
import type { LastAudit } from '../../money/ledger/audit/last-audit.ts'
import type { PromotionState } from '../../money/payouts/promotions.ts'
import type { Alarm, Overview, ShownServer } from '../../wire/api/operator/overview.ts'
import { type LateJob, lateJobWarning } from '../late-job.ts'
import type { Schedule } from '../scheduled-run.ts'
import { alarmSentences } from './alarm-sentences.ts'
import type { InstallationState } from './installation-state.ts'

const say = sentencesOf(alarmSentences)

/** What the configuration says of alarms. */
export interface AlarmRules {
  /** The budget of a day for what promotion credit pays to hosters. */
  readonly promotionDayNanos: Nanos
  /** Without a backup in as many hours there is an alarm; 0: backups are made by other means. */
  readonly backupHours: number
  /** The daily schedules that are set up. */
  readonly schedules: readonly Schedule[]
  /** The payment providers that are set up. */
  readonly providers: readonly { readonly name: string; readonly hasWebhook: boolean }[]
}

export interface AlarmFacts extends InstallationState {
  readonly audit: LastAudit | undefined
  readonly summedAt: string | null
  readonly offers: readonly Offer[]
  readonly servers: readonly ShownServer[]
  readonly failedJobs: readonly string[]
  readonly lateJob: LateJob | undefined
  readonly waitingGrants: number
  readonly waitingModels: readonly string[]
  readonly differences: number
  readonly promotion: PromotionState
  readonly nodes: Overview['nodes']
  readonly rules: AlarmRules
  readonly nowMs: number
}

/** Returns what an operator must know or do, the worst first. */
export function alarmsOf(facts: AlarmFacts): Alarm[] {
  const found = [
    ...ledgerAlarms(facts),
    ...serverAlarms(facts),
    ...supplyAlarms(facts),
    ...budgetAlarms(facts),
    ...jobAlarms(facts),
    ...diskAlarms(facts),
    ...backupAlarms(facts),
    ...usageAlarms(facts),
    ...webhookAlarms(facts),
    ...rotationAlarms(facts),
    ...waitingAlarms(facts),
  ]
  return found
    .map(({ key, link = null, sinceMs = null, message, todo, ...alarm }) => ({
      ...alarm,
      message: message.text,
      message_codes: message.codes,
      todo: todo.text,
      todo_codes: todo.codes,
      key: key === undefined ? alarm.kind : `${alarm.kind} ${key}`,
      link,
      since: sinceMs === null ? null : new Date(sinceMs).toISOString(),
    }))
    .toSorted((a, b) => Number(a.severity === 'warn') - Number(b.severity === 'warn'))
}

interface Found extends Pick<Alarm, 'kind' | 'severity'> {
  readonly message: Said
  readonly todo: Said
  /** What it is about, if there can be several of the kind. */
  readonly key?: string
  readonly link?: string
  readonly sinceMs?: number | null
}

/** An audit runs every five minutes, or nine times as long as the last one took. */
const AUDIT_LATE_MS = HOUR_MS
const AUDIT_PAUSE_FACTOR = 20
const SUMS_LATE_MS = 600_000
const CHECK_LOG = say('alarm.check_log')

function startedMs({ nodes, nowMs }: AlarmFacts): number {
  return Math.min(nowMs, ...nodes.map(node => Date.parse(node.started_at)))
}

function ledgerAlarms(facts: AlarmFacts): Found[] {
  const { audit, differences, promotion, rules, nowMs } = facts
  const found: Found[] = []
  if (audit !== undefined && audit.violations > 0) {
    found.push({
      kind: 'audit_violations',
      severity: 'danger',
      message: say('alarm.audit_violations', { violations: audit.violations }),
      todo: say('alarm.audit_violations.todo', { command: ownCommand('ledger audit') }),
      sinceMs: audit.atEpochMs,
    })
  }
  if (differences > 0) {
    found.push({
      kind: 'payment_differences',
      severity: 'danger',
      message: say('alarm.payment_differences', { count: differences }),
      todo: say('alarm.payment_differences.todo', { command: ownCommand('payments differences') }),
      link: '/operator/money',
    })
  }
  const auditedMs = audit?.atEpochMs ?? startedMs(facts)
  if (nowMs - auditedMs > Math.max(AUDIT_LATE_MS, (audit?.elapsedMs ?? 0) * AUDIT_PAUSE_FACTOR)) {
    found.push({
      kind: 'audit_missing',
      severity: 'warn',
      message: say('alarm.audit_missing'),
      todo: CHECK_LOG,
      link: '/operator/system',
      sinceMs: auditedMs,
    })
  }
  if (promotion.yesterdayNanos > rules.promotionDayNanos) {
    found.push({
      kind: 'promotion_over_budget',
      severity: 'warn',
      message: say('alarm.promotion_over_budget', {
        spent: usdText(promotion.yesterdayNanos),
        budget: usdText(rules.promotionDayNanos),
      }),
      todo: say('alarm.promotion_over_budget.todo'),
      link: '/operator/payouts',
    })
  }
  return found
}

function serverAlarms({ servers }: AlarmFacts): Found[] {
  if (servers.length === 0) {
    const [message, todo] = [say('alarm.no_servers'), say('alarm.no_servers.todo')]
    return [{ kind: 'no_servers', severity: 'danger', message, todo, link: '/operator/models' }]
  }
  const isDown = ({ state }: ShownServer) => state === 'ejected' || state === 'failing'
  return servers.filter(isDown).map(server => {
    const { name, model, state, endpoint_id: endpointId, recent_attempts: attempts, recent_failed: failed } = server
    const isLast = servers.every(other => other.model !== model || isDown(other))
    const error = server.last_error?.text
    return {
      kind: state === 'ejected' ? 'server_ejected' : 'server_failing',
      key: `${endpointId}/${model}`,
      severity: isLast ? 'danger' : 'warn',
      message:
        state === 'ejected'
          ? say('alarm.server_ejected', { name, model })
          : attempts === 0
            ? say('alarm.server_failing.all', { name, model })
            : say('alarm.server_failing', { name, model, failed, attempts }),
      todo: joined(
        ...(isLast ? [say('alarm.server.last', { model })] : []),
        say('alarm.server.todo'),
        ...(error ? [say('alarm.server.error', { error })] : []),
      ),
      link: `/operator/models?model=${encodeURIComponent(model)}`,
    }
  })
}

function supplyAlarms({ offers, suspendedHosters }: AlarmFacts): Found[] {
  const belowCost = offers.filter(isBelowCost).map(
    ({ offerId, modelId, endpoint }): Found => ({
      kind: 'price_below_cost',
      key: offerId,
      severity: 'warn',
      message: say('alarm.price_below_cost', { model: modelId, name: endpoint.name }),
      todo: say('alarm.price_below_cost.todo'),
      link: `/operator/models?model=${encodeURIComponent(modelId)}`,
    }),
  )
  const suspended = suspendedHosters.map(
    ({ id, name, sinceMs }): Found => ({
      kind: 'hoster_suspended',
      key: id,
      severity: 'warn',
      message: say('alarm.hoster_suspended', { name }),
      todo: say('alarm.hoster_suspended.todo'),
      link: `/operator/hosters/${id}`,
      sinceMs,
    }),
  )
  return [...belowCost, ...suspended]
}

/** Whether a token is sold for less than the operator pays. False while the cost is not known. */
function isBelowCost({ price, cost }: Offer): boolean {
  if (cost === undefined) return false
  return price.inputPicoPerToken < cost.inputPicoPerToken || price.outputPicoPerToken < cost.outputPicoPerToken
}

function budgetAlarms({ offers }: AlarmFacts): Found[] {
  const spent = Map.groupBy(
    offers.filter(({ isBudgetSpent }) => isBudgetSpent),
    ({ endpoint }) => endpoint,
  )
  return [...spent].map(([{ endpointId, name, monthlyBudgetNanos = 0n }, ofProvider]): Found => {
    const alone = ofProvider.filter(({ modelId }) =>
      offers.every(other => other.modelId !== modelId || other.isBudgetSpent),
    )
    const models = alone.map(({ modelId }) => modelId).slice(0, 3)
    return {
      kind: 'budget_spent',
      key: endpointId,
      severity: alone.length > 0 ? 'danger' : 'warn',
      message: say('alarm.budget_spent', { name, budget: usdText(monthlyBudgetNanos) }),
      todo: joined(
        ...(alone.length > 0 ? [say('alarm.budget_spent.last', { models: models.join(', ') })] : []),
        say('alarm.budget_spent.todo'),
      ),
      link: '/operator/providers',
    }
  })
}

function jobAlarms(facts: AlarmFacts): Found[] {
  const { lateJob, failedJobs, summedAt, nowMs } = facts
  const found: Found[] = []
  const late = lateJobWarning(lateJob)
  if (late !== null && lateJob !== undefined) {
    const todo = say('alarm.jobs_late.todo')
    found.push({
      kind: 'jobs_late',
      severity: 'danger',
      message: late,
      todo,
      link: '/operator/system',
      sinceMs: lateJob.sinceMs,
    })
  }
  for (const task of failedJobs) {
    const message = say('alarm.job_failed', { task })
    found.push({ kind: 'job_failed', key: task, severity: 'warn', message, todo: CHECK_LOG, link: '/operator/system' })
  }
  const summedMs = summedAt === null ? startedMs(facts) : Date.parse(summedAt)
  if (nowMs - summedMs > SUMS_LATE_MS) {
    found.push({
      kind: 'sums_late',
      severity: 'warn',
      message: say('alarm.sums_late'),
      todo: CHECK_LOG,
      link: '/operator/system',
      sinceMs: summedMs,
    })
  }
  return found
}

const GB = 1_000_000_000
/** A part of a small disk, and no more than this of a large one. */
const DISK_WARN = { share: 0.1, bytes: 5 * GB }
const DISK_DANGER = { share: 0.03, bytes: GB }

function diskAlarms({ disks }: AlarmFacts): Found[] {
  const isBelow = (limit: typeof DISK_WARN, { freeBytes, sizeBytes }: { freeBytes: number; sizeBytes: number }) =>
    freeBytes < Math.min(limit.bytes, limit.share * sizeBytes)
  return disks
    .filter(disk => isBelow(DISK_WARN, disk))
    .map(disk => {
      const { host, what, freeBytes, sizeBytes } = disk
      const left = { host, free: gigabytes(freeBytes), size: gigabytes(sizeBytes) }
      return {
        kind: 'disk_low',
        key: `${host} ${what}`,
        severity: isBelow(DISK_DANGER, disk) ? 'danger' : 'warn',
        message: what === 'data' ? say('alarm.disk_low.data', left) : say('alarm.disk_low.journal', left),
        todo: say('alarm.disk_low.todo'),
        link: '/operator/system',
      }
    })
}

const gigabytes = (bytes: number) => (bytes / GB).toFixed(1)

function backupAlarms({ backups, createdMs, rules: { backupHours }, nowMs }: AlarmFacts): Found[] {
  const { lastMs, failure, test } = backups
  if (backupHours === 0) return []
  const found: Found[] = []
  const add = (alarm: Pick<Found, 'kind' | 'severity' | 'message' | 'todo' | 'sinceMs'>) =>
    found.push({ ...alarm, link: '/operator/system' })
  const sinceMs = lastMs ?? createdMs
  if (nowMs - sinceMs > backupHours * HOUR_MS)
    add({
      kind: 'backup_old',
      severity: 'warn',
      message: lastMs === null ? say('alarm.backup_none') : say('alarm.backup_old', { hours: backupHours }),
      todo: say('alarm.backup_old.todo', { command: ownCommand('backup') }),
      sinceMs,
    })
  if (failure !== null && failure.atMs > (lastMs ?? 0))
    add({
      kind: 'backup_failed',
      severity: 'warn',
      message: say('alarm.backup_failed'),
      todo: say('alarm.backup_failed.todo', { reason: failure.reason, command: ownCommand('backup run') }),
      sinceMs: failure.atMs,
    })
  if (test !== null && test.problem !== null)
    add({
      kind: 'restore_test_failed',
      severity: 'danger',
      message: say('alarm.restore_test_failed', { name: test.name }),
      todo: say('alarm.restore_test_failed.todo', { reason: test.problem, command: ownCommand('backup run') }),
      sinceMs: test.atMs,
    })
  return found
}

function usageAlarms({ scheduledRuns, rules: { schedules } }: AlarmFacts): Found[] {
  return scheduledRuns.flatMap(({ schedule, run: { atMs, problem: reason } }): Found[] => {
    if (reason === null || !schedules.includes(schedule)) return []
    const todo =
      schedule === 'usage_archive'
        ? say('alarm.usage_archive_failed.todo', { reason })
        : say('alarm.usage_export_failed.todo', { reason, command: ownCommand('usage export-days') })
    const kind = `${schedule}_failed` as const
    return [{ kind, severity: 'warn', message: say(`alarm.${kind}`), todo, link: '/operator/system', sinceMs: atMs }]
  })
}

function webhookAlarms({ rules: { providers }, silentProviders }: AlarmFacts): Found[] {
  return providers.flatMap(({ name, hasWebhook }): Found[] => {
    const alarm = { kind: 'webhook_missing', key: name, severity: 'warn', link: '/operator/system' } as const
    if (!hasWebhook) {
      return [
        {
          ...alarm,
          message: say('alarm.webhook_missing', { name }),
          todo: say('alarm.webhook_missing.todo', { name }),
        },
      ]
    }
    if (!silentProviders.includes(name)) return []
    return [
      { ...alarm, message: say('alarm.webhook_silent', { name }), todo: say('alarm.webhook_silent.todo', { name }) },
    ]
  })
}

/** Far longer than a rotation takes, unless nodes lack the key or no job runs. */
const ROTATION_LATE_MS = HOUR_MS

function rotationAlarms({ rotation, nowMs }: AlarmFacts): Found[] {
  if (rotation === null || nowMs - rotation.sinceMs <= ROTATION_LATE_MS) return []
  const isHandedOut = rotation.step === 'seal_again'
  return [
    {
      kind: 'rotation_unfinished',
      severity: 'warn',
      message: isHandedOut ? say('alarm.rotation_sealed') : say('alarm.rotation_waiting'),
      todo: isHandedOut
        ? say('alarm.rotation_sealed.todo', { command: ownCommand('key-ring status') })
        : say('alarm.rotation_waiting.todo', { command: ownCommand('key-ring rotate') }),
      link: '/operator/system',
      sinceMs: rotation.sinceMs,
    },
  ]
}

/** The kinds that wait for a decision. They are shown, and nobody is notified of them. */
export const waitingKinds: ReadonlySet<Alarm['kind']> = new Set([
  'grants_waiting',
  'promotion_reviews',
  'models_waiting',
])

function waitingAlarms({ waitingGrants, waitingModels, promotion: { waitingReviews } }: AlarmFacts): Found[] {
  const found: Found[] = []
  const add = (kind: Alarm['kind'], message: Said, link: string) =>
    found.push({ kind, severity: 'warn', message, todo: say('alarm.decide'), link })
  if (waitingGrants > 0)
    add('grants_waiting', say('alarm.grants_waiting', { count: waitingGrants }), '/operator/grants')
  if (waitingReviews > 0) {
    add('promotion_reviews', say('alarm.promotion_reviews', { count: waitingReviews }), '/operator/payouts')
  }
  if (waitingModels.length > 0) {
    const models = waitingModels.slice(0, 3).join(', ')
    add('models_waiting', say('alarm.models_waiting', { count: waitingModels.length, models }), '/operator/models')
  }
  return found
}
