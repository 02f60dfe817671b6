import { randomUUID } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Mailer } from '../../money/alerts/mailer.ts'
import { type PostWebhookOptions, postWebhook, type Sent, signWebhook } from '../../money/alerts/post-webhook.ts'
import type { Alarm } from '../../wire/api/operator/overview.ts'
import type { AlarmChange } from './note-alarms.ts'

/** A message to an operator, as the job queue keeps it. */
export type AlarmNotice =
  | {
      readonly channel: 'email'
      readonly id: string
      readonly to: string
      readonly subject: string
      readonly text: string
    }
  | { readonly channel: 'webhook'; readonly id: string; readonly body: string }

/** The task of the job queue that delivers one notice. */
export const DELIVER_ALARM = 'deliver_alarm'
const ATTEMPTS_MAX = 10
const SUBJECT_CHARACTERS_MAX = 120

export interface NoticeDeps {
  readonly clock: Clock
  readonly mailer: Mailer
  /** Null: none. The secret signs it. */
  readonly webhook: { readonly url: string; readonly secret: string | null } | null
  readonly webhooks: PostWebhookOptions
}

/**
 * Writes one mail for each operator, with all changes, and one webhook for each change.
 *
 * @param alarms of now: what to do
 */
export function noticesOf(
  changes: readonly AlarmChange[],
  alarms: readonly Alarm[],
  to: { readonly operators: readonly string[]; readonly hasWebhook: boolean; readonly baseUrl: string },
): AlarmNotice[] {
  if (changes.length === 0) return []
  const advice = new Map(alarms.map(({ message, todo, link }) => [message, { todo, link }]))
  const shown = changes.map(change => ({ ...change, ...(advice.get(change.message) ?? { todo: null, link: null }) }))
  const [first] = changes
  const one = first === undefined ? '' : `${titleOf(first)}: ${first.message}`
  const subject =
    changes.length === 1 ? one.slice(0, SUBJECT_CHARACTERS_MAX).toWellFormed() : `${changes.length} changes of alarms`
  const text = shown
    .map(change => {
      const lines = [`${titleOf(change)}: ${change.message}`]
      if (!change.isOver && change.todo !== null) lines.push(change.todo)
      if (!change.isOver && change.link !== null) lines.push(`${to.baseUrl}${change.link}`)
      return lines.join('\n')
    })
    .join('\n\n')
  const more = `All alarms: ${to.baseUrl}/operator\nalarms.mail: false in switchyard.yaml ends these mails.\n`
  const mails = to.operators.map(email => ({
    channel: 'email' as const,
    id: randomUUID(),
    to: email,
    subject: `Switchyard: ${subject}`,
    text: `${text}\n\n${more}`,
  }))
  if (!to.hasWebhook) return mails
  const posts = shown.map(({ isOver, beganAt, link, ...data }) => ({
    channel: 'webhook' as const,
    id: randomUUID(),
    body: JSON.stringify({
      type: isOver ? 'alarm.ended' : 'alarm.began',
      data: { ...data, began_at: beganAt.toISOString(), link: link === null ? null : `${to.baseUrl}${link}` },
    }),
  }))
  return [...mails, ...posts]
}

function titleOf({ isOver, severity }: AlarmChange): string {
  if (isOver) return 'Over'
  return severity === 'danger' ? 'Alarm' : 'Warning'
}

/** Puts notices into the job queue. Run it in the transaction that noted the changes, so that each has exactly one job. */
export async function enqueueNotices(sql: Sql, notices: readonly AlarmNotice[]): Promise<void> {
  for (const notice of notices) {
    await sql.query('SELECT graphile_worker.add_job($1, payload := $2::json, job_key := $3, max_attempts := $4)', [
      DELIVER_ALARM,
      JSON.stringify(notice),
      `alarm-${notice.id}`,
      ATTEMPTS_MAX,
    ])
  }
}

/** Makes one attempt to deliver a notice. Never rejects. */
export async function deliverNotice(deps: NoticeDeps, notice: AlarmNotice): Promise<Sent> {
  if (notice.channel === 'email') return deps.mailer.send(notice)
  const { webhook, webhooks, clock } = deps
  // It was switched off since.
  if (webhook === null) return { outcome: 'logged', status: null, error: null }
  const { id, body } = notice
  const signed =
    webhook.secret === null ? { 'webhook-id': id } : signWebhook(webhook.secret, { id, epochMs: clock.epochMs(), body })
  return postWebhook(webhook.url, signed, body, webhooks)
}

/** Returns the addresses of the operators. */
export async function operatorAddresses(sql: Sql): Promise<string[]> {
  const { rows } = await sql.query<{ email: string }>(
    "SELECT email FROM person WHERE installation_role = 'operator' AND disabled_at IS NULL AND email IS NOT NULL ORDER BY email",
  )
  return rows.map(({ email }) => email)
}
