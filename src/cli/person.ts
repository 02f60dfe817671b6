import type { Command } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { blockPerson, unblockPerson } from '../identity/people/blocks.ts'
import { findPerson } from '../identity/people/persons.ts'
import { setRole } from '../identity/people/roles.ts'
import { emailArgument, textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { lastOperator } from './operator.ts'
import { withDatabase } from './with-database.ts'

const commandLine = { personId: null, address: null }

export function personCommands(): Command {
  return createCommandGroup('person', 'Keep people out, and let them in again', [block(), unblock()])
}

function block(): Command {
  return createCommand(
    'block',
    'Keep a person out: ends the sessions and links; within two seconds, all nodes refuse the keys that the person made',
    ['person block eve@example.com --reason "stolen laptop"'],
  )
    .argument('<email>', 'e-mail of the person', emailArgument)
    .option('--reason <text>', 'why, for the audit log', textArgument)
    .action(async (email: string, options) => {
      const session = createSession(options)
      const { person, ended } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const person = await requirePerson(sql, email)
          // A role would come back with the person.
          if (person.installationRole !== null && !(await setRole(sql, person, null))) throw lastOperator(email)
          const reason = options.reason ?? 'The operator at the machine'
          return { person, ended: await blockPerson(sql, person, { reason, actor: commandLine }) }
        }),
      )
      const { personId, email: stored } = person
      const changed = ended !== undefined
      session.output.result(
        { person_id: personId, email: stored, is_blocked: true, changed },
        changed ? `${stored} is blocked. All nodes notice within two seconds.` : `${stored} was blocked before.`,
      )
    })
}

function unblock(): Command {
  return createCommand('unblock', 'Let a blocked person in again; the keys that the person made work again too', [
    'person unblock eve@example.com',
  ])
    .argument('<email>', 'e-mail of the person', emailArgument)
    .action(async (email: string, options) => {
      const session = createSession(options)
      const { person, changed } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const person = await requirePerson(sql, email)
          return { person, changed: await unblockPerson(sql, person, commandLine) }
        }),
      )
      session.output.result(
        { person_id: person.personId, email: person.email, is_blocked: false, changed },
        changed ? `${person.email} may sign in again.` : `${person.email} was not blocked.`,
      )
    })
}

async function requirePerson(...[sql, email]: Parameters<typeof findPerson>) {
  const person = await findPerson(sql, email)
  if (person === undefined) throw new Failure(`Nobody has the e-mail ${email}.`)
  return person
}
