import { type SecurityChange, securityMail } from './mail-texts.ts'
import type { PeopleMail } from './people-mail.ts'

/** Mails a person that a way to sign in has changed: it may have been another person. */
export interface SecurityNotices {
  /** The change does not wait for the mail. Without a mail server, nothing happens. */
  send(to: string, change: SecurityChange): void
}

export function createSecurityNotices({
  mail,
  log,
}: {
  readonly mail: PeopleMail
  readonly log: { warn(facts: object, message: string): void }
}): SecurityNotices {
  return {
    send(to, change) {
      mail
        .send(securityMail(to, change))
        .catch(error => log.warn({ err: error }, 'a mail to a person could not be prepared'))
    },
  }
}
