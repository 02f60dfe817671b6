import type { Command } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { blockPerson, unblockPerson } from '../identity/people/blocks.ts'
import { findPerson } from '../identity/people/persons.ts'
import { setRole } from '../identity/people/roles.ts'
import { erasePerson } from '../operator/erase.ts'
import { exportPerson } from '../operator/export-personal-data.ts'
import { emailArgument, textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { confirm } from './confirm.ts'
import { counted } from './counted.ts'
import { Failure } from './failure.ts'
import { lastOperator } from './operator.ts'
import { withDatabase } from './with-database.ts'
import { writeNewFile } from './write-new-file.ts'

export function personCommands(): Command {
  return createCommandGroup('person', 'Keep people out, export what is kept of them, or erase it', [
    block(),
    unblock(),
    exportCommand(),
    deletePerson(),
  ])
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

function exportCommand(): Command {
  return createCommand('export', 'Write all that is kept of a person to a file, as JSON', [
    'person export ada@example.com ada.json',
  ])
    .argument('<email>', 'e-mail of the person', emailArgument)
    .argument('<file>', 'file to write; only its owner can read it')
    .action(async (email: string, file: string, options) => {
      const session = createSession(options)
      const { person, path } = await withDatabase(session, async pool => {
        const person = await requirePerson(pool, email)
        const path = await writeNewFile(file, async () => (await exportPerson(pool, commandLine, person)).json)
        return { person, path }
      })
      const { personId, email: stored } = person
      session.output.result({ person_id: personId, email: stored, file: path }, `Wrote ${path}.`)
    })
}

function deletePerson(): Command {
  return createCommand(
    'delete',
    'Erase a person, for good: address, name, ways to sign in and memberships; revokes the keys that the person made',
    ['person delete ada@example.com', 'person delete ada@example.com --yes --json'],
  )
    .argument('<email>', 'e-mail of the person', emailArgument)
    .option('--yes', 'do not ask for confirmation')
    .action(async (email: string, options) => {
      const session = createSession(options)
      if (options.yes !== true)
        await confirm(session, `Delete ${email}? This cannot be undone.`, 'Add --yes to confirm.')
      const person = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const person = await requirePerson(sql, email)
          const erased = await erasePerson(sql, commandLine, person)
          if ('revokedKeys' in erased) return { ...person, keys: erased.revokedKeys }
          if (erased.role !== undefined)
            throw new Failure(`${email} is an ${erased.role}: ${ownCommand(`operator remove ${email}`)}`)
          throw new Failure(
            `${email} is the only owner of ${erased.ownedAlone.join(', ')}. Delete that customer, or make somebody else an owner first.`,
          )
        }),
      )
      const { personId, email: stored, keys } = person
      session.output.result(
        { person_id: personId, deleted: true, revoked_keys: keys },
        `Deleted ${stored}: revoked ${counted(keys, 'key')}. The audit log and the books keep the id ${personId}.`,
      )
    })
}

async function requirePerson(...[sql, email]: Parameters<typeof findPerson>) {
  const person = await findPerson(sql, email)
  if (person === undefined) throw new Failure(`Nobody has the e-mail ${email}.`)
  return person
}
