import { noteAction } from '../base/db/audit-log.ts'
import type { Pool, Sql } from '../base/db/pool.ts'
import { ApiError } from '../base/domain/errors.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import type { Said } from '../base/domain/said.ts'
import type { SettingsRules } from '../base/domain/settings-rules.ts'
import { isJsonObject } from '../base/runtime/json-object.ts'
import { differencesOf } from '../market/supply/providers/providers.ts'
import type { OperatorSettings, parseSettingsChange, WrittenSettings } from '../wire/api/operator/settings.ts'
import { type Actor, act } from './operator-action.ts'
import { readSettingsVersion, writeSettingsVersion } from './settings-versions.ts'

/** The settings of the installation that operators change at run time. All methods reject with ApiError. */
export interface OperatorSettingsService {
  show(): Promise<OperatorSettings>
  /**
   * Changes settings in a new version, with an entry in the audit log.
   *
   * @param mayMoveMoney whether settings that decide what is paid or given away may be among them
   */
  change(actor: Actor, order: ReturnType<typeof parseSettingsChange>, mayMoveMoney: boolean): Promise<WrittenSettings>
}

export interface OperatorSettingsDeps {
  readonly sql: Sql
  readonly pool: Pool
  readonly rules: SettingsRules
  /** Lets this node use a change at once. The others notice it within a second. */
  readonly noticeChanges: () => Promise<void>
}

export function createOperatorSettings({
  sql,
  pool,
  rules,
  noticeChanges,
}: OperatorSettingsDeps): OperatorSettingsService {
  return {
    async show() {
      const { version, settings, reason, at } = await readSettingsVersion(sql)
      return { version, reason, changed_at: at?.toISOString() ?? null, fields: rules.fields(settings) }
    },
    async change(actor, { version, changes, reason }, mayMoveMoney) {
      for (const key of Object.keys(changes)) refuseUnlessManaged(rules, key, mayMoveMoney)
      const written = await act(pool, actor, async sql => {
        const before = await readSettingsVersion(sql)
        if (before.version !== version) throw new ApiError('changed_meanwhile')
        const after = Object.entries(changes).reduce<Readonly<Record<string, unknown>>>(
          (settings, [key, value]) => rules.withValue(settings, key, value ?? undefined),
          before.settings,
        )
        const differences = Object.keys(changes).flatMap(key =>
          differencesOf(valueAt(before.settings, key), valueAt(after, key), key),
        )
        const problem = rules.problemOf(after)
        if (problem !== null) throw refusal(problem.text, problem.key)
        const next = await writeSettingsVersion(sql, { version, settings: after, reason })
        await noteAction(sql, {
          action: 'settings.changed',
          personId: actor.personId,
          keyId: actor.keyId,
          subject: 'settings',
          detail: { reason, version: next, changes: differences },
          address: actor.address,
        })
        return { version: next }
      })
      await noticeChanges()
      return written
    },
  }
}

function refuseUnlessManaged(rules: SettingsRules, key: string, mayMoveMoney: boolean): void {
  const setting = rules.settingOf(key)
  if (setting === undefined) throw refusal(sayRefusal('refusal.setting_needs_file', { key }))
  if (setting.isInFile) throw refusal(sayRefusal('refusal.setting_in_file', { key }))
  if (setting.movesMoney && !mayMoveMoney)
    throw refusal(`${key} decides what is paid or given away. Send it to settings/money.`)
  // A key with the scope `money` alone changes nothing else.
  if (!setting.movesMoney && mayMoveMoney) throw refusal(`${key} moves no money. Send it to settings.`)
}

function valueAt(settings: unknown, key: string): unknown {
  return key.split('.').reduce((inner, step) => (isJsonObject(inner) ? inner[step] : undefined), settings)
}

function refusal(message: Said | string, key: string | null = null): ApiError {
  return new ApiError('invalid_value', { message, param: key === null ? 'changes' : `changes.${key}` })
}
