import type { Sql } from '../../base/db/pool.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { openSecret } from '../../base/secrets/sealed-secret.ts'
import { alertMessage } from './alert-message.ts'
import { type DueAlert, findDueAlert, recordAttempt } from './alert-store.ts'
import type { Mailer } from './mailer.ts'
import { type PostWebhookOptions, postWebhook, type Sent, signWebhook } from './post-webhook.ts'

export interface DeliverDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly masterKeys: SealingKeys
  readonly mailer: Mailer
  readonly webhooks: PostWebhookOptions
}

/**
 * Makes one attempt to deliver an alert and records its result. Undefined when there is nothing to do: the
 * alert was delivered, or its rule was disabled. Rejects when the database is unavailable or the secret
 * cannot be opened.
 */
export async function deliverAlert(deps: DeliverDeps, alertId: string): Promise<Sent | undefined> {
  const alert = await findDueAlert(deps.sql, alertId)
  if (!alert) return undefined
  const sent = await send(deps, alert)
  await recordAttempt(deps.sql, alertId, sent)
  return sent
}

function send({ clock, masterKeys, mailer, webhooks }: DeliverDeps, alert: DueAlert): Promise<Sent> {
  const { subject, text, json } = alertMessage(alert)
  const { alertId, ruleId, target, secretSealed } = alert
  if (alert.channel === 'email') return mailer.send({ to: target, subject, text, id: alertId })
  const secret = openSecret(masterKeys, secretSealed!, { ownerId: ruleId, purpose: 'webhook_secret' })
  // The id is the same for all attempts, so that a receiver can recognise repetitions.
  const headers = signWebhook(secret, { id: alertId, epochMs: clock.epochMs(), body: json })
  return postWebhook(target, headers, json, webhooks)
}
