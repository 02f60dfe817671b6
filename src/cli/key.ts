import type { Command } from 'commander'
import { hasValidChecksum, hintOf } from '../auth/api-key.ts'
import { findKeys, issueKey, type KeyListing, listKeys, revokeKey } from '../auth/keys.ts'
import { transaction } from '../db/pool.ts'
import { usdText } from '../domain/money.ts'
import {
  amountArgument,
  expiryArgument,
  keyScopeArgument,
  limitResetArgument,
  modelIdsArgument,
  textArgument,
} from './arguments.ts'
import { Failure, UsageError } from './failure.ts'
import { type Json, shownTime, table } from './output.ts'
import { resolveCustomer } from './resolve-customer.ts'
import { noun, sessionOf, verb } from './verb.ts'
import { withDatabase } from './with-database.ts'

export function keyCommands(): Command {
  return noun('key', 'Issue and revoke API keys', [issue(), list(), revoke()])
}

function issue(): Command {
  return verb('issue', 'Issue an API key and print it, once', [
    'key issue ada@example.com --name laptop',
    'key issue ada@example.com --name ci --expires 90d',
    'key issue ada@example.com --name bot --limit-usd 5 --limit-reset monthly --models llama-3.3-70b,qwen3-8b',
    'key issue ada@example.com --name admin --scope manage',
    'key issue ada@example.com --name app --json',
  ])
    .argument('<customer>', 'e-mail or id')
    .requiredOption('--name <name>', 'what the key is for; required', textArgument)
    .option(
      '--expires <when>',
      'when it ends: 90d, 2030-01-31 or 2030-01-31T12:00:00Z (UTC); without it, never',
      expiryArgument,
    )
    .option('--limit-usd <amount>', 'the most it may spend, USD; without it, whatever its customer may', amountArgument)
    .option(
      '--limit-reset <when>',
      'when that limit starts again: none, daily, weekly (Mondays) or monthly, at 00:00 UTC; default none',
      limitResetArgument,
    )
    .option('--models <ids>', 'the models it may use, comma-separated; without it, all', modelIdsArgument)
    .option(
      '--scope <scope>',
      'manage: it may make, list and delete the keys of its customer, and change its alerts',
      keyScopeArgument,
    )
    .action(async (emailOrId: string, options) => {
      const session = sessionOf(options)
      const { name, limitUsd, limitReset, models, scope } = options
      if (limitReset !== undefined && limitUsd === undefined) {
        throw new UsageError('--limit-reset needs a limit that it starts again: add --limit-usd.')
      }
      const order = {
        name,
        limit: limitUsd === undefined ? null : { limitNanos: limitUsd, reset: limitReset ?? 'none' },
        allowedModels: models ?? null,
        scopes: scope === undefined ? [] : [scope],
        expiresAt: options.expires ?? null,
      }
      const { customer, issued } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const found = await resolveCustomer(sql, emailOrId)
          const { customerId } = found
          return { customer: found, issued: await issueKey(sql, { ...order, customerId }) }
        }),
      )
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
      session.output.note(`This is the only time it is shown. Revoke it with: switchyard key revoke ${issued.keyId}`)
    })
}

function list(): Command {
  return verb('list', 'List keys, newest first', ['key list', 'key list ada@example.com --json'])
    .argument('[customer]', 'e-mail or id; without it, the keys of all customers')
    .action(async (emailOrId: string | undefined, options) => {
      const session = sessionOf(options)
      const keys = await withDatabase(session, async pool =>
        emailOrId === undefined ? listKeys(pool) : listKeys(pool, (await resolveCustomer(pool, emailOrId)).customerId),
      )
      session.output.result(
        keys.map(jsonOf),
        table(
          ['id', 'key', 'name', 'customer', 'limit', 'models', 'scope', 'created (UTC)', 'expires (UTC)', 'state'],
          keys.map(key => [
            key.keyId,
            key.hint,
            key.name,
            key.customerEmail,
            limitOf(key),
            key.allowedModels === null ? 'all' : key.allowedModels.join(', '),
            key.scopes.join(', '),
            shownTime(key.createdAt),
            shownTime(key.expiresAt),
            stateOf(key),
          ]),
          'There are no keys. Issue one with: switchyard key issue <customer> --name <name>',
        ),
      )
    })
}

function revoke(): Command {
  return verb('revoke', 'Shut a key off, on all nodes within two seconds', [
    'key revoke 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11',
    "key revoke 'sk-sy-Ab3d…x9Zk'",
  ])
    .argument('<key>', 'id, the short form that key list shows, or the key itself')
    .action(async (text: string, options) => {
      const session = sessionOf(options)
      const { key, changed } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const [found, ...others] = await findKeys(sql, text)
          // It may end in a log, so a whole key is not repeated.
          const shown = hasValidChecksum(text) ? hintOf(text) : text
          if (!found) throw new Failure(`There is no key ${shown}. List them with: switchyard key list`)
          if (others.length > 0) throw new Failure(`More than one key looks like ${shown}. Name it by its id.`)
          return { key: found, changed: await revokeKey(sql, found.keyId) }
        }),
      )
      session.output.result(
        { key_id: key.keyId, hint: key.hint, customer_id: key.customerId, revoked: true, changed },
        changed
          ? `Revoked ${key.hint} (${key.name}) of ${key.customerEmail}.`
          : `${key.hint} (${key.name}) of ${key.customerEmail} was revoked already.`,
      )
    })
}

function jsonOf(key: KeyListing): Json {
  return {
    key_id: key.keyId,
    hint: key.hint,
    name: key.name,
    customer_id: key.customerId,
    email: key.customerEmail,
    state: stateOf(key),
    limit_usd: key.limitNanos === null ? null : usdText(key.limitNanos),
    limit_reset: key.limitReset,
    allowed_models: key.allowedModels === null ? null : [...key.allowedModels],
    scopes: [...key.scopes],
    created_at: key.createdAt.toISOString(),
    expires_at: key.expiresAt?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
  }
}

function limitOf({ limitNanos, limitReset }: KeyListing): string {
  if (limitNanos === null) return 'none'
  return limitReset === 'none' ? `${usdText(limitNanos)} USD` : `${usdText(limitNanos)} USD ${limitReset}`
}

function stateOf({ revokedAt, expiresAt }: KeyListing): string {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && expiresAt.getTime() <= Date.now() ? 'expired' : 'active'
}
