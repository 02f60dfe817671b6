import type { JsonObject } from '../../base/runtime/json-object.ts'
import { type Config, ConfigError } from './config.ts'
import { managedValues, withManaged, withValue } from './managed-settings.ts'
import type { ConfigProblem } from './read-yaml.ts'
import type { RunTimeSettings } from './run-time-settings.ts'

interface UsableSettings {
  readonly settings: RunTimeSettings
  /** The managed keys that are not used, as they do not fit to the file. */
  readonly unused: readonly string[]
  /** Why; empty when all are used. */
  readonly problems: readonly ConfigProblem[]
}

/**
 * Returns the settings of a file with what operators manage below them, without the managed keys that do not fit, such as a tier that
 * only the files of other nodes have. There is no signup credit while a key that decides who gets how much is not used: the default
 * would give away what the operator took back.
 */
export function usableSettings(managed: JsonObject, file: Pick<Config, 'written'>): UsableSettings {
  try {
    return { settings: withManaged(managed, file), unused: [], problems: [] }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const { settings, unused } = withWhatFits(managed, file)
    const isCreditUnsure = unused.some(key => key.startsWith('signup.') || key.startsWith('accounts.'))
    return {
      settings: isCreditUnsure ? { ...settings, signup: { ...settings.signup, creditNanos: 0n } } : settings,
      unused,
      problems: error.problems,
    }
  }
}

function withWhatFits(managed: JsonObject, file: Pick<Config, 'written'>) {
  const values = managedValues(managed)
  const tiers = Map.groupBy(
    Object.keys(values).filter(key => key.startsWith('account_tiers.')),
    key => key.split('.')[1],
  )
  let used: JsonObject = {}
  let settings = withManaged(used, file)
  // The limits of a new tier are only valid together. A key can need one that comes later, so the rest is tried again.
  let left = [...tiers.values(), ...Object.keys(values).map(key => [key])]
  for (let hasProgress = true; hasProgress; ) {
    const invalid = left.filter(keys => {
      const document = keys.reduce((before, key) => withValue(before, key, values[key]), used)
      const tried = settingsOrUndefined(document, file)
      if (tried === undefined) return true
      used = document
      settings = tried
      return false
    })
    hasProgress = invalid.length < left.length
    left = invalid
  }
  const usedKeys = managedValues(used)
  return { settings, unused: Object.keys(values).filter(key => !Object.hasOwn(usedKeys, key)) }
}

function settingsOrUndefined(managed: JsonObject, file: Pick<Config, 'written'>): RunTimeSettings | undefined {
  try {
    return withManaged(managed, file)
  } catch (error) {
    if (error instanceof ConfigError) return undefined
    throw error
  }
}
