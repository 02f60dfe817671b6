import type { Command } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import type { KeyLimit, KeyScope, LimitReset } from '../base/domain/caller.ts'
import type { KeyDefaults } from '../base/domain/chat-job.ts'
import type { Nanos } from '../base/domain/money.ts'
import { changeKey } from '../identity/auth/keys.ts'
import { noteKeyChanged } from '../identity/auth/note-key.ts'
import { spendByKey } from '../money/usage/spend.ts'
import { changedDefaults } from '../wire/api/key-defaults.ts'
import {
  amountArgument,
  type Change,
  changeArgument,
  defaultArgument,
  expiryArgument,
  keyScopeArgument,
  labelArgument,
  limitResetArgument,
  modelIdsArgument,
  textArgument,
} from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { keyJson, keyTable } from './key-figures.ts'
import { resolveKey } from './resolve.ts'
import { unknownModelsNote } from './unknown-models.ts'
import { withDatabase } from './with-database.ts'

export function editKeyCommand(): Command {
  return createCommand('edit', 'Change a key; all nodes see the change within two seconds', [
    'key edit 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11 --limit-usd 20',
    'key edit 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11 --limit-usd none --models all --expires never',
    'key edit 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11 --default privacy_mode=true --default tier=none',
  ])
    .argument('<key>', 'id, short form as shown by key list, or the key itself')
    .option('--name <name>', 'what the key is for', textArgument)
    .option('--expires <when>', 'expiry, as in key issue, or never', changeArgument('never', expiryArgument))
    .option('--limit-usd <amount>', 'spend limit in USD, or none', changeArgument('none', amountArgument))
    .option('--limit-reset <when>', 'when the spend limit resets: none, daily, weekly or monthly', limitResetArgument)
    .option(
      '--models <ids>',
      'models that the key may use, comma-separated, or all',
      changeArgument('all', modelIdsArgument),
    )
    .option('--scope <scope>', 'manage, or none', changeArgument('none', keyScopeArgument))
    .option('--label <label>', 'label of requests that name none, or none', changeArgument('none', labelArgument))
    .option(
      '--default <field=value>',
      'routing field of all requests with the key, or <field>=none; repeatable',
      defaultArgument,
    )
    .action(async (text: string, options) => {
      const session = createSession(options)
      const { name, expires, limitUsd, limitReset, models, scope, label, default: defaults } = options as Changes
      if ([name, expires, limitUsd, limitReset, models, scope, label, defaults].every(value => value === undefined))
        throw new UsageError('Say what to change.')
      const { key, spend, note } = await withDatabase(session, async pool => {
        const changed = await transaction(pool, async sql => {
          const found = await resolveKey(sql, text)
          const limit = changedLimit(found, limitUsd?.to, limitReset)
          const scopes = scope && (scope.to === null ? [] : [scope.to])
          const change = {
            name,
            limit,
            allowedModels: models?.to,
            scopes,
            label: label?.to,
            defaults: defaults && changedDefaults(found.defaults, defaults),
            expiresAt: expires?.to,
          }
          const changed = await changeKey(sql, found.keyId, change)
          if (!changed) throw new Failure(`${found.hint} is revoked. Nothing was changed.`)
          await noteKeyChanged(sql, commandLine, found, changed)
          return changed
        })
        return {
          key: changed,
          spend: await spendByKey(pool, changed.customerId, Date.now()),
          note: await unknownModelsNote(session, pool, models?.to ?? null),
        }
      })
      session.output.result(keyJson(key, spend.get(key.keyId)), keyTable([key], spend, ''))
      if (note !== undefined) session.output.note(note)
    })
}

interface Changes {
  readonly name?: string
  readonly expires?: Change<Date>
  readonly limitUsd?: Change<Nanos>
  readonly limitReset?: LimitReset
  readonly models?: Change<readonly string[]>
  readonly scope?: Change<KeyScope>
  readonly label?: Change<string>
  readonly default?: KeyDefaults
}

/** Returns the limit after the change; undefined if it stays. */
function changedLimit(
  key: { readonly limitNanos: Nanos | null; readonly limitReset: LimitReset },
  limitNanos: Nanos | null | undefined,
  reset: LimitReset | undefined,
): KeyLimit | null | undefined {
  if (limitNanos === undefined && reset === undefined) return undefined
  const nanos = limitNanos === undefined ? key.limitNanos : limitNanos
  if (nanos !== null) return { limitNanos: nanos, reset: reset ?? key.limitReset }
  if (reset !== undefined && reset !== 'none')
    throw new UsageError('--limit-reset needs a spend limit: add --limit-usd.')
  return null
}
