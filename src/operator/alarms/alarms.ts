import { DAY_MS, HOUR_MS } from '../../base/domain/durations.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { ownCommand } from '../../base/runtime/own-command.ts'
import type { LastAudit } from '../../money/ledger/audit/last-audit.ts'
import type { PromotionState } from '../../money/payouts/promotions.ts'
import type { Alarm, Overview, ShownServer } from '../../wire/api/operator/overview.ts'
import { type LateJob, lateJobWarning } from '../late-job.ts'
import type { InstallationState } from './installation-state.ts'

/** What the configuration says of alarms. */
export interface AlarmRules {
  /** The budget of a day for what promotion credit pays to hosters. */
  readonly promotionDayNanos: Nanos
  /** Without a backup in as many days there is an alarm; 0: never. */
  readonly backupDays: number
  /** `switchyard backup` is what backs the database up. */
  readonly isEmbedded: boolean
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
    ...webhookAlarms(facts),
    ...rotationAlarms(facts),
    ...waitingAlarms(facts),
  ]
  return found
    .map(({ key, link = null, sinceMs = null, ...alarm }) => ({
      ...alarm,
      key: key === undefined ? alarm.kind : `${alarm.kind} ${key}`,
      link,
      since: sinceMs === null ? null : new Date(sinceMs).toISOString(),
    }))
    .toSorted((a, b) => Number(a.severity === 'warn') - Number(b.severity === 'warn'))
}

interface Found extends Pick<Alarm, 'kind' | 'severity' | 'message' | 'todo'> {
  /** What it is about, if there can be several of the kind. */
  readonly key?: string
  readonly link?: string
  readonly sinceMs?: number | null
}

/** An audit runs every five minutes, or nine times as long as the last one took. */
const AUDIT_LATE_MS = HOUR_MS
const AUDIT_PAUSE_FACTOR = 20
const SUMS_LATE_MS = 600_000
const CHECK_LOG = 'Check the log of the nodes.'

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
      message: `The last audit found ${audit.violations} violations in the ledger.`,
      todo: `Grant no credit until it is clear why. For details, run: ${ownCommand('ledger audit')}`,
      sinceMs: audit.atEpochMs,
    })
  }
  if (differences > 0) {
    found.push({
      kind: 'payment_differences',
      severity: 'danger',
      message: `The payment provider and the books differ in ${differences} charges, refunds or credits.`,
      todo: `For details, run: ${ownCommand('payments differences')}`,
      link: '/operator/money',
    })
  }
  const auditedMs = audit?.atEpochMs ?? startedMs(facts)
  if (nowMs - auditedMs > Math.max(AUDIT_LATE_MS, (audit?.elapsedMs ?? 0) * AUDIT_PAUSE_FACTOR)) {
    found.push({
      kind: 'audit_missing',
      severity: 'warn',
      message: 'The ledger was not audited lately.',
      todo: CHECK_LOG,
      link: '/operator/system',
      sinceMs: auditedMs,
    })
  }
  if (promotion.yesterdayNanos > rules.promotionDayNanos) {
    const spent = `Yesterday, hosters earned ${usdText(promotion.yesterdayNanos)} USD from promotion credit.`
    found.push({
      kind: 'promotion_over_budget',
      severity: 'warn',
      message: `${spent} The budget of a day is ${usdText(rules.promotionDayNanos)} USD.`,
      todo: 'Look for customers that only use free credit.',
      link: '/operator/payouts',
    })
  }
  return found
}

function serverAlarms({ servers }: AlarmFacts): Found[] {
  if (servers.length === 0) {
    const message = 'No server is configured, so no request can be served.'
    return [{ kind: 'no_servers', severity: 'danger', message, todo: 'Add an endpoint.', link: '/operator/models' }]
  }
  const isDown = ({ state }: ShownServer) => state === 'ejected' || state === 'failing'
  return servers.filter(isDown).map(server => {
    const { name, model, state, endpoint_id: endpointId, recent_attempts: attempts, recent_failed: failed } = server
    const isLast = servers.every(other => other.model !== model || isDown(other))
    const recent = attempts === 0 ? 'the last attempts failed' : `${failed} of the last ${attempts} attempts failed`
    const reason = server.last_error?.text ? ` Last error: ${server.last_error.text}.` : ''
    return {
      kind: state === 'ejected' ? 'server_ejected' : 'server_failing',
      key: `${endpointId}/${model}`,
      severity: isLast ? 'danger' : 'warn',
      message:
        state === 'ejected'
          ? `${name} gets no requests for ${model}: it failed or asked for a pause.`
          : `${name} fails for ${model}: ${recent}.`,
      todo: `${isLast ? `No other server of ${model} works. ` : ''}Check the server and its key.${reason}`,
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
      message: `${modelId} is sold below its cost at ${endpoint.name}.`,
      todo: 'Raise its price, or correct its cost.',
      link: `/operator/models?model=${encodeURIComponent(modelId)}`,
    }),
  )
  const suspended = suspendedHosters.map(
    ({ id, name, sinceMs }): Found => ({
      kind: 'hoster_suspended',
      key: id,
      severity: 'warn',
      message: `The hoster ${name} is suspended and gets no requests.`,
      todo: 'Read the reason and its appeal, then make it active again or retire it.',
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
      message: `${name} has spent its budget of ${usdText(monthlyBudgetNanos)} USD for this month and gets no requests.`,
      todo: `${alone.length > 0 ? `Nobody else serves ${models.join(', ')}. ` : ''}Raise its monthly_budget_usd, or wait for the next month (UTC).`,
      link: '/operator/providers',
    }
  })
}

function jobAlarms(facts: AlarmFacts): Found[] {
  const { lateJob, failedJobs, summedAt, nowMs } = facts
  const found: Found[] = []
  const late = lateJobWarning(lateJob)
  if (late !== null && lateJob !== undefined) {
    const todo = 'Without jobs, nothing is audited, mailed or paid out. Restart the node whose queue hangs.'
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
    const message = `The job ${task} failed.`
    found.push({ kind: 'job_failed', key: task, severity: 'warn', message, todo: CHECK_LOG, link: '/operator/system' })
  }
  const summedMs = summedAt === null ? startedMs(facts) : Date.parse(summedAt)
  if (nowMs - summedMs > SUMS_LATE_MS) {
    found.push({
      kind: 'sums_late',
      severity: 'warn',
      message: 'The sums over all customers are old: the job that writes them does not run.',
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
      const directory = what === 'data' ? 'data directory' : 'journal'
      return {
        kind: 'disk_low',
        key: `${host} ${what}`,
        severity: isBelow(DISK_DANGER, disk) ? 'danger' : 'warn',
        message: `The disk of the ${directory} on ${host} has ${gigabytes(freeBytes)} GB left of ${gigabytes(sizeBytes)} GB.`,
        todo: 'Free space or enlarge the disk. Remove no file of the journal: its files are charges. A full disk serves no paid request.',
        link: '/operator/system',
      }
    })
}

const gigabytes = (bytes: number) => (bytes / GB).toFixed(1)

function backupAlarms({ backupMs, createdMs, rules: { backupDays, isEmbedded }, nowMs }: AlarmFacts): Found[] {
  // Of a database of its own, the gateway knows no backups.
  if (backupDays === 0 || (!isEmbedded && backupMs === null)) return []
  const sinceMs = backupMs ?? createdMs
  if (nowMs - sinceMs <= backupDays * DAY_MS) return []
  return [
    {
      kind: 'backup_old',
      severity: 'warn',
      message: backupMs === null ? 'There is no backup.' : `The last backup is older than ${backupDays} days.`,
      todo: `Run every night: ${ownCommand('backup')} DIRECTORY. If you back up by other means, set alarms.backup_days to 0.`,
      link: '/operator/system',
      sinceMs,
    },
  ]
}

function webhookAlarms({ rules: { providers }, silentProviders }: AlarmFacts): Found[] {
  return providers.flatMap(({ name, hasWebhook }): Found[] => {
    const alarm = { kind: 'webhook_missing', key: name, severity: 'warn', link: '/operator/system' } as const
    const late = 'Payments, refunds and chargebacks are noticed only minutes later, when the gateway asks.'
    if (!hasWebhook) {
      const todo = `Add the webhook at ${name}, and set payments.${name}.webhook_secret.`
      return [{ ...alarm, message: `${name} has no webhook. ${late}`, todo }]
    }
    if (!silentProviders.includes(name)) return []
    const todo = `Check the address of the webhook at ${name}: /webhooks/${name}, reachable from outside.`
    return [{ ...alarm, message: `${name} took payments in the last week and sent no event. ${late}`, todo }]
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
      message: isHandedOut
        ? 'Stored secrets are still sealed with a former master key.'
        : 'A new master key waits for nodes that do not have it, so all seal with the old one.',
      todo: isHandedOut
        ? `See what is left: ${ownCommand('key-ring status')}`
        : `Give it to every node, then run: ${ownCommand('key-ring rotate')}`,
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
  const add = (kind: Alarm['kind'], message: string, link: string) =>
    found.push({ kind, severity: 'warn', message, todo: 'Decide on it.', link })
  if (waitingGrants > 0)
    add('grants_waiting', `${waitingGrants} grants wait for a second operator.`, '/operator/grants')
  if (waitingReviews > 0) {
    const waits = `Promotional earnings of ${waitingReviews} hosters come from related customers and wait for a decision.`
    add('promotion_reviews', waits, '/operator/payouts')
  }
  if (waitingModels.length > 0) {
    const ids = waitingModels.slice(0, 3).join(', ')
    const what = `Hosters offer ${waitingModels.length} model ids that wait for your approval: ${ids}.`
    add('models_waiting', what, '/operator/models')
  }
  return found
}
