import * as z from 'zod'
import type { ManagedField, SettingsRules } from '../../base/domain/settings-rules.ts'
import { isJsonObject, type JsonObject } from '../../base/runtime/json-object.ts'
import { type Config, ConfigError } from './config.ts'
import { readSettings, schemaAt } from './read-settings.ts'
import type { ConfigProblem } from './read-yaml.ts'
import { type RunTimeSettings, runTimeSettings } from './run-time-settings.ts'
import { typeDescription } from './values.ts'

interface ManagedSetting {
  /** What it does, for the form. */
  readonly about: string
  /** It decides what is paid or given away. */
  readonly movesMoney?: true
}

/**
 * The settings that operators can change while the gateway runs, by their keys in switchyard.yaml. Everything else needs a file:
 * secrets, addresses, what a process needs to start, and what would let a stolen session reach other machines.
 */
const managedSettings: Readonly<Record<string, ManagedSetting>> = {
  'signup.credit_usd': { about: 'The credit of a new customer, USD.', movesMoney: true },
  // A tier may have a price group.
  'signup.tier': { about: 'The tier of a new customer.', movesMoney: true },
  'accounts.credits_per_network_per_day': { about: 'New customers with credit, a network and day.', movesMoney: true },
  'accounts.credits_per_region_percent': {
    about: 'The part of all new customers with credit that one larger network may have, percent.',
    movesMoney: true,
  },
  'accounts.credits_per_day': { about: 'New customers with credit, a day.', movesMoney: true },
  'payments.min_usd': { about: 'The smallest top-up, USD.', movesMoney: true },
  'payments.max_usd': { about: 'The largest top-up, USD.', movesMoney: true },
  'payouts.hold_days': { about: 'How old a request is before its share is paid out, days.', movesMoney: true },
  'payouts.min_usd': { about: 'Less is not paid out, USD.', movesMoney: true },
  'payouts.promotion_hold_days': { about: 'The same for shares of promotion credit, days.', movesMoney: true },
  'payouts.promotion_hoster_day_usd': {
    about: 'What promotion credit pays to one hoster in a day, USD.',
    movesMoney: true,
  },
  'payouts.promotion_day_usd': { about: 'What promotion credit pays to all hosters in a day, USD.', movesMoney: true },
  'payouts.promotion_needs_payers': {
    about: 'Whether a hoster needs customers that pay before promotion credit pays it.',
    movesMoney: true,
  },
  'payouts.account_wait_hours': { about: 'How long another payout account waits, hours.', movesMoney: true },
  'platform.fee_percent': { about: 'The part of a charge that the platform keeps, of new hosters.', movesMoney: true },
  'models.default_max_tokens': { about: 'The max_tokens of a request that has none.' },
  'limits.wait_for_credit_ms': { about: 'How long a request waits for credit that others hold, ms.' },
  'routing.cloud_competes': { about: 'Whether clouds are ranked with the other servers.' },
  'routing.balanced_price_percent': { about: 'What the first server may cost with balanced, percent of the cheapest.' },
  'routing.fastest_price_percent': { about: 'What the first server may cost with fastest, percent of the cheapest.' },
  'routing.local_price_percent': { about: 'What your own servers may cost, percent of the cheapest.' },
  'routing.attempts_max': { about: 'How many servers a request is sent to for each model.' },
  'routing.newcomers.successes': { about: 'Answers before a hoster is no longer new.' },
  'routing.newcomers.payers': { about: 'Customers that must have paid for them.' },
  'routing.newcomers.in_flight': { about: 'Requests at once at a new hoster, on each node.' },
  'routing.newcomers.usd_per_day': { about: 'What customers spend at a new hoster in a day, USD.' },
  'hosters.applications': { about: 'Whether people may apply as hosters.' },
  'hosters.approval': { about: 'Whether a verified hoster waits for an operator.' },
  'hosters.max_price_per_million_usd.input': { about: 'The highest input price of a hoster, USD a million tokens.' },
  'hosters.max_price_per_million_usd.output': { about: 'The highest output price of a hoster, USD a million tokens.' },
  'hosters.price_change_minutes': { about: 'The least time between two prices of a hoster, minutes.' },
  'hosters.price_rise_percent': { about: 'A rise of more than this needs the notice, percent.' },
  'hosters.price_rise_notice_hours': { about: 'The notice of a rise, hours.' },
  'alarms.mail': { about: 'Whether operators get alarms by mail.' },
  'alarms.backup_days': { about: 'Days without a backup before there is an alarm; 0: never.' },
  'status.public': { about: 'Whether everybody may see the status page.' },
  'status.server_names': { about: 'Whether it names the servers.' },
}

const tierSettings: Readonly<Record<string, string>> = {
  requests_per_minute: 'Requests a minute.',
  requests_per_day: 'Requests a day.',
  daily_spend_cap_usd: 'What a customer may spend in a day, USD.',
}
const usualTiers = ['free', 'standard', 'scale']
const TIER_KEY = /^account_tiers\.([a-z0-9][a-z0-9_-]{0,31})\.(\w+)$/

/** Whether operators can change a setting while the gateway runs. */
export function managedSetting(key: string): ManagedSetting | undefined {
  const setting = Object.hasOwn(managedSettings, key) ? managedSettings[key] : undefined
  if (setting !== undefined) return setting
  const [, , limit = ''] = TIER_KEY.exec(key) ?? []
  return Object.hasOwn(tierSettings, limit) ? { about: tierSettings[limit] ?? '' } : undefined
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
        if (error instanceof ConfigError)
          return error.problems.map(({ key, message }) => `${key ?? 'They'} ${message}.`).join(' ')
        throw error
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
        about: setting.about,
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
