import type { Command } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { usdText } from '../base/domain/money.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { issueKey, listKeys, revokeKey } from '../identity/auth/keys.ts'
import { noteKeyIssued, noteKeyRevoked } from '../identity/auth/note-key.ts'
import { spendByKey } from '../money/usage/spend.ts'
import { changedDefaults } from '../wire/api/key-defaults.ts'
import {
  amountArgument,
  defaultArgument,
  expiryArgument,
  keyScopeArgument,
  labelArgument,
  limitResetArgument,
  modelIdsArgument,
  textArgument,
} from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { UsageError } from './failure.ts'
import { editKeyCommand } from './key-edit.ts'
import { keyJson, keyTable } from './key-figures.ts'
import { findKeyCommand, pauseKeyCommand, resumeKeyCommand, rotateKeyCommand } from './key-pause.ts'
import type { Json } from './output.ts'
import { resolveCustomer, resolveKey } from './resolve.ts'
import { unknownModelsNote } from './unknown-models.ts'
import { withDatabase } from './with-database.ts'

export function keyCommands(): Command {
  return createCommandGroup('key', 'Issue, change, pause, replace and revoke API keys', [
    issue(),
    list(),
    editKeyCommand(),
    findKeyCommand(),
    pauseKeyCommand(),
    resumeKeyCommand(),
    rotateKeyCommand(),
    revoke(),
  ])
}

function issue(): Command {
  return createCommand('issue', 'Issue an API key; it is printed only once', [
    'key issue ada@example.com --name laptop',
    'key issue ada@example.com --name ci --expires 90d',
    'key issue ada@example.com --name bot --limit-usd 5 --limit-reset monthly --models llama-3.3-70b,qwen3-8b',
    'key issue ada@example.com --name admin --scope manage',
    'key issue ada@example.com --name codex --default privacy_mode=true --default tier=cheapest',
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
      'manage: the key may create, list, change and delete keys of its customer and change its alerts',
      keyScopeArgument,
    )
    .option('--label <label>', 'label of requests that name none, for the spend by label', labelArgument)
    .option(
      '--default <field=value>',
      'routing field of all requests with the key, such as privacy_mode=true; repeatable',
      defaultArgument,
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
        label: (options.label as string | undefined) ?? null,
        defaults: changedDefaults(null, options.default ?? null),
        expiresAt: options.expires ?? null,
      }
      const { customer, issued, note } = await withDatabase(session, async pool => ({
        ...(await transaction(pool, async sql => {
          const found = await resolveCustomer(sql, emailOrId)
          const { customerId } = found
          const issued = await issueKey(sql, { ...order, customerId })
          await noteKeyIssued(sql, commandLine, await resolveKey(sql, issued.keyId))
          return { customer: found, issued }
        })),
        note: await unknownModelsNote(session, pool, order.allowedModels),
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
          label: order.label,
          defaults: { ...order.defaults } as Record<string, Json>,
          expires_at: order.expiresAt?.toISOString() ?? null,
        },
        issued.key,
      )
      session.output.note(
        `The key is shown only this once. Revoke it with: ${ownCommand(`key revoke ${issued.keyId}`)}`,
      )
      if (note !== undefined) session.output.note(note)
    })
}

function list(): Command {
  return createCommand('list', 'List keys, newest first, with what they have spent', [
    'key list',
    'key list ada@example.com --json',
  ])
    .argument('[customer]', 'e-mail or id; default: all customers')
    .action(async (emailOrId: string | undefined, options) => {
      const session = createSession(options)
      const { keys, spend } = await withDatabase(session, async pool => {
        const customerId = emailOrId === undefined ? null : (await resolveCustomer(pool, emailOrId)).customerId
        const [keys, spend] = await Promise.all([listKeys(pool, customerId), spendByKey(pool, customerId, Date.now())])
        return { keys, spend }
      })
      session.output.result(
        keys.map(key => keyJson(key, spend.get(key.keyId))),
        keyTable(keys, spend, `There are no keys. Issue one with: ${ownCommand('key issue <customer> --name <name>')}`),
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
          const found = await resolveKey(sql, text)
          const changed = await revokeKey(sql, found.keyId)
          if (changed) await noteKeyRevoked(sql, commandLine, found)
          return { key: found, changed }
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
