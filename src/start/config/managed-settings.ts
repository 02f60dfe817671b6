import * as z from 'zod'
import { type Said, sentencesOf } from '../../base/domain/said.ts'
import type { ManagedField, SettingsRules } from '../../base/domain/settings-rules.ts'
import { isJsonObject, type JsonObject } from '../../base/runtime/json-object.ts'
import { type Config, ConfigError } from './config.ts'
import { readSettings, schemaAt } from './read-settings.ts'
import type { ConfigProblem } from './read-yaml.ts'
import { type RunTimeSettings, runTimeSettings } from './run-time-settings.ts'
import { settingSentences } from './setting-sentences.ts'
import { typeDescription } from './values.ts'

const say = sentencesOf(settingSentences)

interface ManagedSetting {
  /** What it does, for the form. */
  readonly about: Said
  /** It decides what is paid or given away. */
  readonly movesMoney?: true
}

/**
 * The settings that operators can change while the gateway runs, by their keys in switchyard.yaml. Everything else needs a file:
 * secrets, addresses, what a process needs to start, and what would let a stolen session reach other machines.
 */
const managedSettings: Readonly<Record<string, ManagedSetting>> = {
  'signup.credit_usd': { about: say('setting.signup.credit_usd'), movesMoney: true },
  // A tier may have a price group.
  'signup.tier': { about: say('setting.signup.tier'), movesMoney: true },
  'accounts.credits_per_network_per_day': {
    about: say('setting.accounts.credits_per_network_per_day'),
    movesMoney: true,
  },
  'accounts.credits_per_region_percent': {
    about: say('setting.accounts.credits_per_region_percent'),
    movesMoney: true,
  },
  'accounts.credits_per_day': { about: say('setting.accounts.credits_per_day'), movesMoney: true },
  'payments.min_usd': { about: say('setting.payments.min_usd'), movesMoney: true },
  'payments.max_usd': { about: say('setting.payments.max_usd'), movesMoney: true },
  'payouts.hold_days': { about: say('setting.payouts.hold_days'), movesMoney: true },
  'payouts.min_usd': { about: say('setting.payouts.min_usd'), movesMoney: true },
  'payouts.promotion_hold_days': { about: say('setting.payouts.promotion_hold_days'), movesMoney: true },
  'payouts.promotion_hoster_day_usd': { about: say('setting.payouts.promotion_hoster_day_usd'), movesMoney: true },
  'payouts.promotion_day_usd': { about: say('setting.payouts.promotion_day_usd'), movesMoney: true },
  'payouts.promotion_needs_payers': { about: say('setting.payouts.promotion_needs_payers'), movesMoney: true },
  'payouts.account_wait_hours': { about: say('setting.payouts.account_wait_hours'), movesMoney: true },
  'platform.fee_percent': { about: say('setting.platform.fee_percent'), movesMoney: true },
  'models.default_max_tokens': { about: say('setting.models.default_max_tokens') },
  'limits.wait_for_credit_ms': { about: say('setting.limits.wait_for_credit_ms') },
  'routing.cloud_competes': { about: say('setting.routing.cloud_competes') },
  'routing.balanced_price_percent': { about: say('setting.routing.balanced_price_percent') },
  'routing.fastest_price_percent': { about: say('setting.routing.fastest_price_percent') },
  'routing.local_price_percent': { about: say('setting.routing.local_price_percent') },
  'routing.attempts_max': { about: say('setting.routing.attempts_max') },
  'routing.newcomers.successes': { about: say('setting.routing.newcomers.successes') },
  'routing.newcomers.payers': { about: say('setting.routing.newcomers.payers') },
  'routing.newcomers.in_flight': { about: say('setting.routing.newcomers.in_flight') },
  'routing.newcomers.usd_per_day': { about: say('setting.routing.newcomers.usd_per_day') },
  'hosters.applications': { about: say('setting.hosters.applications') },
  'hosters.approval': { about: say('setting.hosters.approval') },
  'hosters.max_price_per_million_usd.input': { about: say('setting.hosters.max_price_per_million_usd.input') },
  'hosters.max_price_per_million_usd.output': { about: say('setting.hosters.max_price_per_million_usd.output') },
  'hosters.price_change_minutes': { about: say('setting.hosters.price_change_minutes') },
  'hosters.price_rise_percent': { about: say('setting.hosters.price_rise_percent') },
  'hosters.price_rise_notice_hours': { about: say('setting.hosters.price_rise_notice_hours') },
  'alarms.mail': { about: say('setting.alarms.mail') },
  'alarms.backup_days': { about: say('setting.alarms.backup_days') },
  'status.public': { about: say('setting.status.public') },
  'status.server_names': { about: say('setting.status.server_names') },
}

const tierSettings: Readonly<Record<string, ManagedSetting>> = {
  requests_per_minute: { about: say('setting.tier.requests_per_minute') },
  requests_per_day: { about: say('setting.tier.requests_per_day') },
  daily_spend_cap_usd: { about: say('setting.tier.daily_spend_cap_usd') },
}
const usualTiers = ['free', 'standard', 'scale']
const TIER_KEY = /^account_tiers\.([a-z0-9][a-z0-9_-]{0,31})\.(\w+)$/

/** Whether operators can change a setting while the gateway runs. */
export function managedSetting(key: string): ManagedSetting | undefined {
  const setting = Object.hasOwn(managedSettings, key) ? managedSettings[key] : undefined
  if (setting !== undefined) return setting
  const [, , limit = ''] = TIER_KEY.exec(key) ?? []
  return Object.hasOwn(tierSettings, limit) ? tierSettings[limit] : undefined
}

/**
 * Returns the settings of a file with what operators manage below them: what the file declares counts. Throws ConfigError that names
 * each mistake.
 *
 * @param written what the file says
 */
export function withManaged(managed: JsonObject, { written }: Pick<Config, 'written'>): RunTimeSettings {
  const problems: ConfigProblem[] = []
  // The endpoints were checked with the file, and may be thousands. What the file would replace stays as it is.
  const { endpoints: _, ...others } = written
  const text = JSON.stringify(merged(managed, others)).replaceAll('${', () => '$${')
  const settings = readSettings(text, 'settings', {}, problems)
  if (settings === undefined || problems.length > 0)
    throw new ConfigError(problems.map(problem => ({ ...problem, line: null })))
  return runTimeSettings(settings)
}

/** What can be managed besides a file that is asked for at each call. */
export function createSettingsRules(file: () => Pick<Config, 'written'>): SettingsRules {
  return {
    fields: managed => fieldsOf(managed, file().written),
    settingOf: key => {
      const setting = managedSetting(key)
      return (
        setting && { movesMoney: setting.movesMoney === true, isInFile: valueAt(file().written, key) !== undefined }
      )
    },
    withValue,
    problemOf(managed) {
      try {
        withManaged(managed, file())
        return null
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error
        const texts = error.problems.map(({ key, message }) => `${key === null ? 'They' : `"${key}"`} ${message}.`)
        return { text: texts.join(' '), key: error.problems[0]?.key ?? null }
      }
    },
  }
}

/** Returns the settings of a file that can be managed, as a document of their own. */
function managedPart(written: JsonObject): JsonObject {
  const { endpoints: _, ...others } = written
  let part: JsonObject = {}
  for (const key of leafKeys(others)) if (managedSetting(key)) part = withValue(part, key, valueAt(others, key))
  return part
}

/** Returns the part of a file that can be managed, and the keys of its other settings, which need switchyard.yaml. */
export function managedPartOf(file: JsonObject): { readonly settings: JsonObject; readonly others: readonly string[] } {
  const { endpoints: _, ...written } = file
  return { settings: managedPart(written), others: leafKeys(written).filter(key => !managedSetting(key)) }
}

/** Returns the settings of a file that can be managed, by their keys. */
export function managedValues(written: JsonObject): Record<string, unknown> {
  const { endpoints: _, ...others } = written
  return Object.fromEntries(leafKeys(others).flatMap(key => (managedSetting(key) ? [[key, valueAt(others, key)]] : [])))
}

/** Returns a document with another value of a setting; without it for undefined. */
export function withValue(document: JsonObject, key: string, value: unknown): JsonObject {
  const [first = '', ...rest] = key.split('.')
  const { [first]: before, ...others } = document
  if (rest.length === 0) return value === undefined ? others : { ...document, [first]: value }
  const inner = withValue(isJsonObject(before) ? before : {}, rest.join('.'), value)
  return Object.keys(inner).length === 0 ? others : { ...document, [first]: inner }
}

function fieldsOf(managed: JsonObject, written: JsonObject): ManagedField[] {
  const tiers = new Set([...usualTiers, ...keysOf(managed.account_tiers), ...keysOf(written.account_tiers)])
  const tierKeys = [...tiers].flatMap(tier => Object.keys(tierSettings).map(limit => `account_tiers.${tier}.${limit}`))
  return [...tierKeys, ...Object.keys(managedSettings)].flatMap((key): ManagedField[] => {
    const setting = managedSetting(key)
    if (setting === undefined) return []
    const { type, choices, fallback } = describe(key)
    const [inFile, stored] = [valueAt(written, key), valueAt(managed, key)]
    const value = inFile ?? stored ?? fallback
    return [
      {
        key,
        about: setting.about.text,
        about_codes: setting.about.codes,
        type,
        choices,
        value: value === null ? null : String(value),
        fallback,
        origin: inFile !== undefined ? 'file' : stored !== undefined ? 'managed' : 'default',
        moves_money: setting.movesMoney === true,
      },
    ]
  })
}

function describe(key: string): { type: string; choices: string[] | null; fallback: string | null } {
  const outer = schemaAt(key.split('.'))
  const isDefault = outer instanceof z.ZodPrefault
  const inner = isDefault || outer instanceof z.ZodOptional ? outer.def.innerType : outer
  const type = (inner && typeDescription(inner)) ?? 'text'
  const choices = type.startsWith('one of ') ? type.slice('one of '.length).split(', ') : null
  return {
    type,
    choices: type.startsWith('true or false') ? ['true', 'false'] : choices,
    fallback: isDefault ? String(outer.def.defaultValue) : null,
  }
}

/** Returns both documents as one. What `over` has counts. */
export function merged(under: JsonObject, over: JsonObject): JsonObject {
  const all = { ...under, ...over }
  return Object.fromEntries(
    Object.entries(all).map(([key, value]) => {
      const below = under[key]
      return [key, isJsonObject(below) && isJsonObject(value) ? merged(below, value) : value]
    }),
  )
}

function valueAt(document: JsonObject, key: string): unknown {
  return key.split('.').reduce<unknown>((inner, step) => (isJsonObject(inner) ? inner[step] : undefined), document)
}

function leafKeys(document: JsonObject, prefix = ''): string[] {
  return Object.entries(document).flatMap(([key, value]) =>
    isJsonObject(value) ? leafKeys(value, `${prefix}${key}.`) : [prefix + key],
  )
}

const keysOf = (value: unknown) => (isJsonObject(value) ? Object.keys(value) : [])
