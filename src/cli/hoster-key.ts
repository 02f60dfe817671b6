import { type Command, InvalidArgumentError, Option } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { type HosterScope, hosterScopes } from '../base/domain/hoster-access.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { commandLineActor } from '../market/marketplace/change-hoster-state.ts'
import { issueKeyOf, revokeKeyOf } from '../market/marketplace/change-keys.ts'
import { listHosterKeys } from '../market/marketplace/hoster-keys.ts'
import { findHoster, lockHoster, setHosterKey } from '../market/supply/hosters/hosters.ts'
import { expiryArgument, textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { UsageError } from './failure.ts'
import { readUpstreamKey, showHosterChange, upstreamKeyOption } from './hoster-change.ts'
import { requireMasterKeys } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

/** `hoster key acme --key-file f` is short for `hoster key set acme --key-file f`. */
export function hosterKeyCommands(): Command {
  const group = createCommandGroup('key', 'Manage the keys of a hoster, and the key that is sent to it', [
    issue(),
    list(),
    revoke(),
  ])
  return group.addCommand(set(), { isDefault: true })
}

function issue(): Command {
  return createCommand('issue', 'Issue a key to a hoster, for its agent and programs; it is printed only once', [
    'hoster key issue acme --name gpu-1',
    'hoster key issue acme --name prices --scope manage --expires 90d',
  ])
    .argument('<hoster>', 'name or id')
    .requiredOption('--name <name>', 'what the key is for; required', textArgument)
    .option('--scope <scopes>', 'comma-separated: serve, manage, read; default: serve,read', scopesArgument)
    .option('--expires <when>', 'expiry: 90d, 2030-01-31 or 2030-01-31T12:00:00Z (UTC); default: never', expiryArgument)
    .action(async (hoster: string, options) => {
      const session = createSession(options)
      const { hosterId, name, issued } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const found = await lockHoster(sql, hoster)
          const order = {
            name: options.name,
            scopes: options.scope ?? (['serve', 'read'] as const),
            expiresAt: options.expires ?? null,
          }
          return { ...found, issued: await issueKeyOf(sql, found.hosterId, order, commandLineActor) }
        }),
      )
      const { keyId, key, scopes } = issued
      session.output.result({ hoster_id: hosterId, key_id: keyId, name: issued.name, scopes: [...scopes], key }, key)
      session.output.note(`This key of ${name} is shown only now. Its scopes: ${scopes.join(', ')}.`)
    })
}

function list(): Command {
  return createCommand('list', 'List the keys of a hoster', ['hoster key list acme'])
    .argument('<hoster>', 'name or id')
    .action(async (hoster: string, options) => {
      const session = createSession(options)
      const keys = await withDatabase(session, async pool =>
        listHosterKeys(pool, (await findHoster(pool, hoster)).hosterId),
      )
      session.output.result(
        keys.map(({ keyId, name, hint, scopes, createdAt, expiresAt }) => ({
          key_id: keyId,
          name,
          hint,
          scopes: [...scopes],
          created_at: createdAt.toISOString(),
          expires_at: expiresAt?.toISOString() ?? null,
        })),
        table(
          ['id', 'name', 'key', 'scopes', 'expires'],
          keys.map(({ keyId, name, hint, scopes, expiresAt }) => [
            keyId,
            name,
            hint,
            scopes.join(','),
            expiresAt?.toISOString() ?? 'never',
          ]),
          `This hoster has no keys. Issue one with: ${ownCommand('hoster key issue <hoster> --name <name>')}`,
        ),
      )
    })
}

function revoke(): Command {
  return createCommand('revoke', 'Revoke a key of a hoster; all nodes refuse it within two seconds', [
    'hoster key revoke acme 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11',
  ])
    .argument('<hoster>', 'name or id')
    .argument('<key>', 'id or hint, as in the list')
    .action(async (hoster: string, key: string, options) => {
      const session = createSession(options)
      const revoked = await withDatabase(session, pool =>
        transaction(pool, async sql =>
          revokeKeyOf(sql, (await lockHoster(sql, hoster)).hosterId, key, commandLineActor),
        ),
      )
      session.output.result({ key_id: revoked.keyId, name: revoked.name }, `Revoked the key "${revoked.name}".`)
    })
}

function set(): Command {
  return createCommand('set', 'Replace the API key that is sent to a hoster', [
    'hoster key set acme --key-file acme.key',
    'hoster key acme --key-file acme.key',
    'hoster key set acme --none',
  ])
    .argument('<hoster>', 'name or id')
    .addOption(upstreamKeyOption())
    .option('--key-file <file>', "file with the hoster's API key; - reads standard input")
    .addOption(new Option('--none', 'send no key').conflicts(['key', 'keyFile']))
    .action(async (hoster: string, options) => {
      const session = createSession(options)
      const apiKey = readUpstreamKey(options) ?? null
      if (apiKey === null && options.none !== true) throw new UsageError('Add --key-file, --key or --none.')
      const found = await withDatabase(session, async pool =>
        setHosterKey(pool, hoster, apiKey, await requireMasterKeys(session, pool)),
      )
      const text = apiKey === null ? 'now gets no key.' : 'now gets the new key.'
      showHosterChange(session, found, { has_key: apiKey !== null }, text)
    })
}

function scopesArgument(text: string): HosterScope[] {
  const scopes = text.split(',').map(word => hosterScopes.find(scope => scope === word.trim()))
  if (scopes.every(scope => scope !== undefined)) return [...new Set(scopes)]
  throw new InvalidArgumentError(`Use one or more of ${hosterScopes.join(', ')}, separated by commas.`)
}
