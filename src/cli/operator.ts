import type { Command } from 'commander'
import { baseUrlOf } from '../config/base-url.ts'
import { transaction } from '../db/pool.ts'
import { noteAction } from '../people/audit-log.ts'
import { makeWelcomeLink } from '../people/links.ts'
import { listOperators } from '../people/persons.ts'
import { emailArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { withDatabase } from './with-database.ts'
import { withRunningPort } from './with-running-port.ts'

export function operatorCommands(): Command {
  return createCommandGroup('operator', 'Let operators in', [link()])
}

function link(): Command {
  return createCommand('link', 'Make a link with which an operator sets a new password; it works once, for 24 hours', [
    'operator link',
    'operator link ada@example.com --json',
  ])
    .argument('[email]', 'e-mail of the operator; needed if there are several', emailArgument)
    .action(async (email: string | undefined, options) => {
      const session = createSession(options)
      const { operator, path } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const found = (await listOperators(sql)).filter(each => email === undefined || isSame(each.email, email))
          const [operator, ...others] = found
          if (operator === undefined) {
            throw new Failure(
              email === undefined
                ? 'There is no operator yet. Start the gateway once.'
                : `No operator has the e-mail ${email}.`,
            )
          }
          if (others.length > 0) {
            throw new Failure(`There are several operators. Name one: ${found.map(each => each.email).join(', ')}.`)
          }
          const path = await makeWelcomeLink(sql, operator.personId, Date.now())
          await noteAction(sql, {
            action: 'operator.link_made',
            personId: null,
            subject: operator.email,
            address: null,
          })
          return { operator, path }
        }),
      )
      const url = `${baseUrlOf(withRunningPort(session.config))}${path}`
      session.output.result({ email: operator.email, url }, url)
      session.output.note(
        `The link sets the password of ${operator.email}: give it to nobody else. It ends all sessions of this person.`,
      )
    })
}

function isSame(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase()
}
