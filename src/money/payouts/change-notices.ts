import type { Pool } from '../../base/db/pool.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { type PayoutDriverName, payoutLabels } from '../../base/domain/money-drivers.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { payoutChangeMail } from '../../identity/people/mail-texts.ts'
import type { PeopleMail } from '../../identity/people/people-mail.ts'
import { hiddenAccount } from '../../wire/api/payouts.ts'

/** Mails the owners of a hoster that its earnings will go somewhere else, so that they can stop it. */
export interface ChangeNotices {
  /** Mails in the background. */
  sendSoon(): void
  /** Mails the owners that no mail has reached yet. Without a mail server, nothing happens. */
  send(): Promise<void>
}

const MAILED_DAYS = 7

export function createChangeNotices(deps: {
  readonly pool: Pool
  readonly clock: Clock
  readonly mail: PeopleMail
  readonly log: Pick<Log, 'warn'>
}): ChangeNotices {
  const { pool, clock, mail, log } = deps
  const notices: ChangeNotices = {
    sendSoon() {
      notices
        .send()
        .catch(error => log.warn({ err: error }, 'the owners of a hoster could not be mailed; trying again'))
    },
    async send() {
      if (!mail.canSend) return
      const { rows } = await pool.query<Notice>(
        `SELECT c.change_id AS "changeId", c.hoster_id AS "hosterId", c.driver, c.destination, c.effective_at AS "effectiveAt",
           p.person_id AS "personId", p.email AS "to"
         FROM payout_change c JOIN hoster_member m ON m.hoster_id = c.hoster_id AND m.role = 'owner' JOIN person p ON p.person_id = m.person_id
         -- A refused account takes no effect, so there is nothing to stop.
         WHERE c.requested_at > $1 AND c.state IS DISTINCT FROM 'refused' AND (c.outcome IS NULL OR c.outcome = 'applied') AND p.disabled_at IS NULL AND p.person_id <> ALL (c.mailed_to)`,
        [new Date(clock.epochMs() - MAILED_DAYS * DAY_MS)],
      )
      for (const { changeId, personId, ...notice } of rows) {
        // Two nodes may both mail. That is better than no mail after a crash.
        if (await mail.send(payoutChangeMail({ ...notice, target: targetOf(notice), url: urlOf(notice.hosterId) }))) {
          await pool.query('SELECT note_payout_change_mailed($1, $2)', [changeId, personId])
        }
      }
    },
  }
  const urlOf = (hosterId: string) => mail.url(`/h/${hosterId}/earnings`)
  return notices
}

interface Notice {
  readonly changeId: string
  readonly hosterId: string
  readonly driver: PayoutDriverName | null
  readonly destination: string | null
  readonly effectiveAt: Date
  readonly personId: string
  readonly to: string
}

function targetOf({ driver, destination }: Pick<Notice, 'driver' | 'destination'>): string {
  if (driver === null) return 'the balance of another customer, when a member moves them'
  return `${driver === 'csv' ? 'the bank account' : `the account at ${payoutLabels[driver]}`} ${hiddenAccount(destination!)}`
}
