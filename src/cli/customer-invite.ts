import { type Command, Option } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { transaction } from '../base/db/pool.ts'
import { type MemberRole, memberRoles } from '../base/domain/member-role.ts'
import { makeInviteLink } from '../identity/people/links.ts'
import { baseUrlOf } from '../start/config/base-url.ts'
import { emailArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { resolveCustomer } from './resolve.ts'
import { withDatabase } from './with-database.ts'
import { withRunningPort } from './with-running-port.ts'

export function inviteCommand(): Command {
  return createCommand('invite', 'Make a link with which a person joins a customer; it works once, for 7 days', [
    'customer invite ada@example.com',
    'customer invite team@example.com bob@example.com --role developer',
  ])
    .argument('<customer>', 'e-mail or id')
    .argument('[email]', 'e-mail of the person; default: that of the customer', emailArgument)
    .addOption(
      new Option(
        '--role <role>',
        'what the person may do: owner, developer, billing or viewer; default: owner',
      ).choices([...memberRoles]),
    )
    .action(async (emailOrId: string, personEmail: string | undefined, options) => {
      const session = createSession(options)
      const role: MemberRole = options.role ?? 'owner'
      const { customer, email, path } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const found = await resolveCustomer(sql, emailOrId)
          const { customerId } = found
          const email = personEmail ?? found.email
          const path = await makeInviteLink(sql, { customerId, email, role }, Date.now())
          await noteAction(sql, {
            action: 'member.invited',
            personId: null,
            subject: email,
            customerId,
            detail: { role },
            address: null,
          })
          return { customer: found, email, path }
        }),
      )
      const url = `${baseUrlOf(withRunningPort(session.config))}${path}`
      session.output.result({ customer_id: customer.customerId, email, role, url }, url)
      session.output.note(`With this link, ${email} joins ${customer.email} as ${role}. Send it to this person only.`)
    })
}
