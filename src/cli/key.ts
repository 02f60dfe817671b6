import type { Command } from 'commander'
import { hasValidChecksum, hintOf } from '../auth/api-key.ts'
import { findKeys, issueKey, type KeyListing, listKeys, revokeKey } from '../auth/keys.ts'
import { type Sql, transaction } from '../db/pool.ts'
import { usdText } from '../domain/money.ts'
import {
  amountArgument,
  expiryArgument,
  keyScopeArgument,
  limitResetArgument,
  modelIdsArgument,
  textArgument,
} from './arguments.ts'
import { createCommand, createCommandGroup, createSession, type Session } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { type Json, timeText } from './output.ts'
import { resolveCustomer } from './resolve-customer.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function keyCommands(): Command {
  return createCommandGroup('key', 'Issue and revoke API keys', [issue(), list(), revoke()])
}

function issue(): Command {
  return createCommand('issue', 'Issue an API key; it is printed only once', [
    'key issue ada@example.com --name laptop',
    'key issue ada@example.com --name ci --expires 90d',
    'key issue ada@example.com --name bot --limit-usd 5 --limit-reset monthly --models llama-3.3-70b,qwen3-8b',
    'key issue ada@example.com --name admin --scope manage',
    'key issue ada@example.com --name app --json',
  ])
    .argument('<customer>', 'e-mail or id')
    .requiredOption('--name <name>', 'what the key is for; required', textArgument)
    .option('--expires <when>', 'expiry: 90d, 2030-01-31 or 2030-01-31T12:00:00Z (UTC); default: never', expiryArgument)
    .option('--limit-usd <amount>', 'spend limit in USD; default: only the limits of the customer', amountArgument)
    .option(
      '--limit-reset <when>',
      'when the spend limit resets, at 00:00 UTC: none, daily, weekly (Mondays) or monthly; default: none',
      limitResetArgument,
    )
    .option('--models <ids>', 'models that the key may use, comma-separated; default: all', modelIdsArgument)
    .option(
      '--scope <scope>',
      'manage: the key may create, list and delete keys of its customer and change its alerts',
      keyScopeArgument,
    )
    .action(async (emailOrId: string, options) => {
      const session = createSession(options)
      const { name, limitUsd, limitReset, models, scope } = options
      if (limitReset !== undefined && limitUsd === undefined) {
        throw new UsageError('--limit-reset needs a spend limit: add --limit-usd.')
      }
      const order = {
        name,
        limit: limitUsd === undefined ? null : { limitNanos: limitUsd, reset: limitReset ?? 'none' },
        allowedModels: models ?? null,
        scopes: scope === undefined ? [] : [scope],
        expiresAt: options.expires ?? null,
      }
      const { customer, issued, unknownModels } = await withDatabase(session, async pool => ({
        ...(await transaction(pool, async sql => {
          const found = await resolveCustomer(sql, emailOrId)
          const { customerId } = found
          return { customer: found, issued: await issueKey(sql, { ...order, customerId }) }
        })),
        unknownModels: await findUnknownModels(session, pool, order.allowedModels),
      }))
      session.output.result(
        {
          key: issued.key,
          key_id: issued.keyId,
          hint: issued.hint,
          name,
          customer_id: customer.customerId,
          limit_usd: order.limit === null ? null : usdText(order.limit.limitNanos),
          limit_reset: order.limit?.reset ?? 'none',
          allowed_models: order.allowedModels,
          scopes: order.scopes,
          expires_at: order.expiresAt?.toISOString() ?? null,
        },
        issued.key,
      )
      session.output.note(`The key is shown only this once. Revoke it with: switchyard key revoke ${issued.keyId}`)
      if (unknownModels.length > 0) {
        session.output.note(
          `Warning: no server offers ${unknownModels.join(', ')} now. List the models with: switchyard model list`,
        )
      }
    })
}

/** Returns the models that no server offers now: usually misspelled. */
async function findUnknownModels({ config }: Session, sql: Sql, allowed: readonly string[] | null): Promise<string[]> {
  if (allowed === null) return []
  const { availableModels } = await import('./available-models.ts')
  const available = new Set(await availableModels(config, sql))
  return allowed.filter(id => !available.has(id))
}

function list(): Command {
  return createCommand('list', 'List keys, newest first', ['key list', 'key list ada@example.com --json'])
    .argument('[customer]', 'e-mail or id; default: all customers')
    .action(async (emailOrId: string | undefined, options) => {
      const session = createSession(options)
      const keys = await withDatabase(session, async pool =>
        emailOrId === undefined ? listKeys(pool) : listKeys(pool, (await resolveCustomer(pool, emailOrId)).customerId),
      )
      session.output.result(
        keys.map(keyJson),
        table(
          ['id', 'key', 'name', 'customer', 'limit', 'models', 'scope', 'created (UTC)', 'expires (UTC)', 'state'],
          keys.map(key => [
            key.keyId,
            key.hint,
            key.name,
            key.customerEmail,
            limitText(key),
            key.allowedModels === null ? 'all' : key.allowedModels.join(', '),
            key.scopes.join(', '),
            timeText(key.createdAt),
            timeText(key.expiresAt),
            keyState(key),
          ]),
          'There are no keys. Issue one with: switchyard key issue <customer> --name <name>',
        ),
      )
    })
}

function revoke(): Command {
  return createCommand('revoke', 'Revoke a key; all nodes refuse it within two seconds', [
    'key revoke 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11',
    "key revoke 'sk-sy-Ab3d…x9Zk'",
  ])
    .argument('<key>', 'id, short form as shown by key list, or the key itself')
    .action(async (text: string, options) => {
      const session = createSession(options)
      const { key, changed } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const [found, ...others] = await findKeys(sql, text)
          // Never repeat a whole key: the message may end up in a log.
          const shown = hasValidChecksum(text) ? hintOf(text) : text
          if (!found) throw new Failure(`There is no key ${shown}. List keys with: switchyard key list`)
          if (others.length > 0) throw new Failure(`More than one key matches ${shown}. Use the id of the key.`)
          return { key: found, changed: await revokeKey(sql, found.keyId) }
        }),
      )
      session.output.result(
        { key_id: key.keyId, hint: key.hint, customer_id: key.customerId, revoked: true, changed },
        changed
          ? `Revoked ${key.hint} (${key.name}) of ${key.customerEmail}.`
          : `${key.hint} (${key.name}) of ${key.customerEmail} was already revoked.`,
      )
    })
}

function keyJson(key: KeyListing): Json {
  return {
    key_id: key.keyId,
    hint: key.hint,
    name: key.name,
    customer_id: key.customerId,
    email: key.customerEmail,
    state: keyState(key),
    limit_usd: key.limitNanos === null ? null : usdText(key.limitNanos),
    limit_reset: key.limitReset,
    allowed_models: key.allowedModels === null ? null : [...key.allowedModels],
    scopes: [...key.scopes],
    created_at: key.createdAt.toISOString(),
    expires_at: key.expiresAt?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
  }
}

function limitText({ limitNanos, limitReset }: KeyListing): string {
  if (limitNanos === null) return 'none'
  return limitReset === 'none' ? `${usdText(limitNanos)} USD` : `${usdText(limitNanos)} USD ${limitReset}`
}

function keyState({ revokedAt, expiresAt }: KeyListing): string {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && expiresAt.getTime() <= Date.now() ? 'expired' : 'active'
}
