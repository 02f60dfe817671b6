import { createInvitations, type Invitations } from '../../identity/people/invitations.ts'
import { createPeopleMail, type PeopleMail } from '../../identity/people/people-mail.ts'
import { createMailer } from '../../money/alerts/mailer.ts'
import { baseUrlOf } from '../config/base-url.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** Mails to people, and invitations of them. */
export interface PeopleMailParts {
  readonly mail: PeopleMail
  readonly invitations: Invitations
}

export function createPeopleMailParts(
  { config, clock, log }: Pick<ComposeContext, 'config' | 'clock' | 'log'>,
  { desk }: Pick<Database, 'desk'>,
): PeopleMailParts {
  const mail = createPeopleMail({
    send: config.smtp.host === null ? null : createMailer(config.smtp, log).send,
    baseUrl: () => baseUrlOf(config),
  })
  return { mail, invitations: createInvitations({ pool: desk, clock, mail }) }
}
