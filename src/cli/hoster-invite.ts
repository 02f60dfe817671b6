import { type Command, Option } from 'commander'
import { type MemberRole, memberRoles } from '../base/domain/member-role.ts'
import { systemClock } from '../base/runtime/scheduler.ts'
import { createInvitations } from '../identity/people/invitations.ts'
import { createPeopleMail } from '../identity/people/people-mail.ts'
import { commandLineActor } from '../market/marketplace/change-hoster-state.ts'
import { createHosterInvites } from '../market/marketplace/hoster-invites.ts'
import { createMailer } from '../money/alerts/mailer.ts'
import { baseUrlOf } from '../start/config/base-url.ts'
import { emailArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { requireMasterKeys } from './require-master-key.ts'
import { resolveHoster } from './resolve.ts'
import { withDatabase } from './with-database.ts'
import { withRunningPort } from './with-running-port.ts'

/** `switchyard hoster invite`: a person joins a hoster, which is made for its owner. */
export function hosterInvite(): Command {
  return createCommand('invite', 'Invite a person to a hoster: mails a link, or prints it', [
    'hoster invite acme ada@acme.dev --new',
    'hoster invite acme bob@acme.dev --role developer',
  ])
    .argument('<hoster>', 'name or id')
    .argument('<email>', 'e-mail of the person', emailArgument)
    .addOption(
      new Option(
        '--role <role>',
        'what the person may do: owner, developer, billing or viewer; default: owner',
      ).choices([...memberRoles]),
    )
    .addOption(new Option('--new', 'make a hoster with this name, which the person owns').conflicts('role'))
    .action(async (hoster: string, email: string, options) => {
      const session = createSession(options)
      const { config, output } = session
      const role: MemberRole = options.role ?? 'owner'
      const warn = (details: object, text: string) => output.note(`${text}: ${JSON.stringify(details)}`)
      const mailer = config.smtp.host === null ? null : createMailer(config.smtp, { info: () => {}, warn })
      const baseUrl = baseUrlOf(withRunningPort(config))
      const isNew = options.new === true
      const sent = await withDatabase(session, async pool => {
        const mail = createPeopleMail({ send: mailer === null ? null : mailer.send, baseUrl: () => baseUrl })
        const invites = createHosterInvites({
          invitations: createInvitations({ pool, clock: systemClock, mail }),
          server: {
            masterKeys: await requireMasterKeys(session, pool),
            allowPrivateUrls: config.hosters.allowPrivateUrls,
          },
          shareBps: () => config.platform.hosterShareBps,
        })
        const inviter = { actor: commandLineActor, madeBy: null, mayAdd: true }
        if (isNew) return await invites.inviteNew(inviter, { name: hoster, email })
        const { hosterId } = await resolveHoster(pool, hoster)
        return await invites.invite(inviter, hosterId, { email, role })
      })
      const url = sent.path === null ? null : `${baseUrl}${sent.path}`
      output.result(
        { hoster_id: sent.hosterId, is_new: isNew, email, role, is_mailed: sent.isMailed, url },
        url ?? mailText(email, sent.isMailed),
      )
      output.note(
        `${url === null ? '' : 'Send the link to this person only. '}It works once, for 7 days: ${email} joins ${hoster} as ${role}${isNew ? ', and finishes the application' : ''}.`,
      )
    })
}

function mailText(email: string, isMailed: boolean): string {
  return isMailed
    ? `An e-mail with the link is on its way to ${email}.`
    : `The mail server did not take the mail to ${email}. Invite the person again later, without --new.`
}
