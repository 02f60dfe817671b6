import { type Command, Option } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { type InstallationRole, installationRoles } from '../base/domain/member-role.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { makeWelcomeLink } from '../identity/people/links.ts'
import { addPerson, findPerson, isBlocked, listOperators } from '../identity/people/persons.ts'
import { setRole } from '../identity/people/roles.ts'
import { baseUrlOf } from '../start/config/base-url.ts'
import { emailArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { operatorKeyCommands } from './operator-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'
import { withRunningPort } from './with-running-port.ts'

export function operatorCommands(): Command {
  return createCommandGroup('operator', 'Manage operators and auditors, and let them in', [
    list(),
    add(),
    remove(),
    link(),
    operatorKeyCommands(),
  ])
}

function list(): Command {
  return createCommand('list', 'List operators and auditors', ['operator list', 'operator list --json']).action(
    async options => {
      const session = createSession(options)
      const people = await withDatabase(session, listOperators)
      session.output.result(
        people.map(({ personId, email, name, installationRole: role }) => ({ person_id: personId, email, name, role })),
        table(
          ['e-mail', 'role', 'name'],
          people.map(({ email, name, installationRole }) => [email, installationRole!, name]),
          'There is no operator yet. Start the gateway once.',
        ),
      )
    },
  )
}

function add(): Command {
  return createCommand('add', 'Make a person an operator or auditor, and print a link that sets a new password', [
    'operator add ada@example.com',
    'operator add bob@example.com --role auditor',
  ])
    .argument('<email>', 'e-mail of the person, with or without an account', emailArgument)
    .addOption(
      new Option('--role <role>', 'operator, or auditor with the right to read; default: operator').choices([
        ...installationRoles,
      ]),
    )
    .action(async (email: string, options) => {
      const session = createSession(options)
      const role: InstallationRole = options.role ?? 'operator'
      const { person, path } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const person = (await findPerson(sql, email)) ?? (await addPerson(sql, { email }))!
          if (await isBlocked(sql, person.personId))
            throw new Failure(`${email} is blocked. Run \`${ownCommand(`person unblock ${email}`)}\` first.`)
          if (!(await setRole(sql, person, role))) throw lastOperator(email)
          const path = await makeWelcomeLink(sql, person.personId, Date.now())
          await noteAction(sql, { ...commandLine, action: 'operator.link_made', subject: person.email })
          return { person, path }
        }),
      )
      const url = `${baseUrlOf(withRunningPort(session.config))}${path}`
      session.output.result({ person_id: person.personId, email: person.email, role, url }, url)
      session.output.note(
        `${person.email} is ${role} now. The link sets the password and removes all factors and services: give it to nobody else.`,
      )
    })
}

function remove(): Command {
  return createCommand('remove', 'Take the role of an operator or auditor away; ends the sessions of the person', [
    'operator remove bob@example.com',
  ])
    .argument('<email>', 'e-mail of the person', emailArgument)
    .action(async (email: string, options) => {
      const session = createSession(options)
      const person = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const found = await findPerson(sql, email)
          if (found === undefined || found.installationRole === null)
            throw new Failure(`No operator or auditor has the e-mail ${email}.`)
          if (!(await setRole(sql, found, null))) throw lastOperator(email)
          return found
        }),
      )
      session.output.result(
        { person_id: person.personId, email: person.email, role: null },
        `${person.email} has no role any more.`,
      )
    })
}

/** The refusal to take away the role of the only operator. */
export function lastOperator(email: string): Failure {
  return new Failure(`${email} is the last operator. Run \`${ownCommand('operator add')}\` for another person first.`)
}

function link(): Command {
  return createCommand('link', 'Make a link with which an operator sets a new password; it works once, for 24 hours', [
    'operator link',
    'operator link ada@example.com --json',
  ])
    .argument('[email]', 'e-mail of the operator or auditor; needed if there are several', emailArgument)
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
                : `No operator or auditor has the e-mail ${email}.`,
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
