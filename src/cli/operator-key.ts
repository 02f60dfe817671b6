import { type Command, InvalidArgumentError } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { type OperatorScope, operatorScopes } from '../base/domain/operator-scope.ts'
import { findPerson } from '../identity/people/persons.ts'
import { drawOperatorKey, listOperatorKeys, operatorKeyRefusal, sortedScopes } from '../operator/operator-keys.ts'
import { emailArgument, expiryArgument, textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function operatorKeyCommands(): Command {
  return createCommandGroup('key', 'Manage the keys of the operator API', [add(), list(), revoke()])
}

function add(): Command {
  return createCommand('add', 'Make a key of the operator API; it is printed only once', [
    'operator key add ada@example.com --name reports --scope read',
    'operator key add ada@example.com --name billing --scope read,money --expires 90d',
  ])
    .argument('<email>', 'e-mail of the operator or auditor', emailArgument)
    .requiredOption('--name <name>', 'what the key is for; required', textArgument)
    .requiredOption('--scope <scopes>', `comma-separated: ${operatorScopes.join(', ')}; required`, scopesArgument)
    .option('--expires <when>', 'expiry: 90d, 2030-01-31 or 2030-01-31T12:00:00Z (UTC); default: never', expiryArgument)
    .action(async (email: string, options) => {
      const session = createSession(options)
      const scopes = sortedScopes(options.scope)
      const issued = drawOperatorKey()
      await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const person = await findPerson(sql, email)
          if (person === undefined) throw new Failure(`Nobody has the e-mail ${email}.`)
          const { verdict } = await queryRow<{ verdict: string }>(
            sql,
            'SELECT issue_operator_key_as(NULL, $1, $2, $3, $4, $5, $6, $7, NULL) AS verdict',
            [issued.keyId, person.personId, options.name, issued.hash, issued.hint, scopes, options.expires ?? null],
          )
          if (verdict !== 'made') throw new Failure(operatorKeyRefusal(verdict).message)
        }),
      )
      session.output.result({ key: issued.key, key_id: issued.keyId, hint: issued.hint, email, scopes }, issued.key)
      session.output.note(`The key is shown only this once. Its scopes: ${scopes.join(', ')}.`)
    })
}

function list(): Command {
  return createCommand('list', 'List the keys of the operator API that work', ['operator key list']).action(
    async options => {
      const session = createSession(options)
      const { data } = await withDatabase(session, listOperatorKeys)
      session.output.result(
        data.map(({ id, name, hint, scopes, person, created_at, expires_at, last_used_at }) => ({
          ...{ key_id: id, name, hint, scopes, email: person.email, created_at, expires_at, last_used_at },
        })),
        table(
          ['id', 'name', 'key', 'person', 'scopes', 'expires', 'last used'],
          data.map(({ id, name, hint, scopes, person, expires_at, last_used_at }) => [
            ...[id, name, hint, person.email, scopes.join(','), expires_at ?? 'never', last_used_at ?? 'never'],
          ]),
          'There are no keys of the operator API.',
        ),
      )
    },
  )
}

function revoke(): Command {
  return createCommand('revoke', 'Revoke a key of the operator API; it stops at once', [
    'operator key revoke 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11',
  ])
    .argument('<key>', 'id, as in the list', textArgument)
    .action(async (text: string, options) => {
      const session = createSession(options)
      const isRevoked = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const { rows } = await sql.query<{ done: boolean }>(
            'SELECT revoke_operator_key_as(NULL, key_id, NULL) AS done FROM operator_key WHERE key_id::text = lower($1)',
            [text],
          )
          return rows[0]?.done === true
        }),
      )
      if (!isRevoked) throw new Failure(`There is no key ${text}, or it was revoked before. Nothing was changed.`)
      session.output.result({ key_id: text.toLowerCase(), revoked: true }, `Revoked the key ${text}.`)
    })
}

function scopesArgument(text: string): OperatorScope[] {
  const scopes = text.split(',').map(word => operatorScopes.find(scope => scope === word.trim()))
  if (scopes.every(scope => scope !== undefined)) return scopes
  throw new InvalidArgumentError(`Use one or more of ${operatorScopes.join(', ')}, separated by commas.`)
}
