import { isDeepStrictEqual } from 'node:util'
import type { ConfigReload } from '../base/domain/config-reload.ts'
import { isJsonObject, type JsonObject } from '../base/runtime/json-object.ts'
import type { Log } from '../base/runtime/log.ts'
import { differencesOf } from '../market/supply/providers/providers.ts'
import { type Config, ConfigError } from './config/config.ts'
import { managedValues } from './config/managed-settings.ts'
import { declaredProviders } from './config/read-endpoint.ts'
import { runTimeSettings } from './config/run-time-settings.ts'
import { fileSchema } from './config/schema.ts'

/**
 * Creates what reads the configuration again, and uses its endpoints and the settings that need no restart. A configuration that is wrong changes nothing. The
 * log says what was used, what is wrong, and what needs a restart. One call runs at a time.
 *
 * @param options.readAgain throws ConfigError
 * @param options.use uses the endpoints and settings of another configuration, at all nodes of this process
 */
export function createConfigReload({
  config,
  readAgain,
  use,
  log,
}: {
  readonly config: Config
  readonly readAgain: () => Config
  readonly use: (changed: Config) => Promise<void>
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
}): () => Promise<ConfigReload> {
  let current = config
  let last: Promise<unknown> = Promise.resolve()
  const reload = async (): Promise<ConfigReload> => {
    let changed: Config
    try {
      changed = readAgain()
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      log.error({ problems: error.problems }, `the configuration is wrong, so nothing was changed: ${error.message}`)
      return { problem: error.message }
    }
    await use(changed)
    const [before, after] = [declaredByName(current), declaredByName(changed)]
    const changes = differencesOf(usedOf(current, before), usedOf(changed, after))
    current = changed
    log.info({ endpoints: changed.endpoints.map(({ name }) => name) }, 'the configuration was read again')
    const needsRestart = (Object.keys(config) as (keyof Config)[]).filter(
      key =>
        key !== 'endpoints' &&
        key !== 'written' &&
        key !== 'accountTiers' &&
        key !== 'masterKey' &&
        !isDeepStrictEqual(startOnly(config, key), startOnly(changed, key)),
    )
    if (needsRestart.length > 0)
      log.warn({ settings: needsRestart }, 'other settings have changed too: they need a restart')
    const names = [...after.keys()]
    return {
      problem: null,
      file: changed.configFile,
      changes,
      keysReplaced: names.filter(name => !isDeepStrictEqual(before.get(name)?.secrets ?? {}, after.get(name)?.secrets)),
      needsRestart,
    }
  }
  return () => {
    const next = last.then(reload)
    last = next.catch(() => {})
    return next
  }
}

/** What is used without a restart, without keys. */
function usedOf({ written }: Config, declared: ReturnType<typeof declaredByName>) {
  const endpoints = Object.fromEntries([...declared].map(([name, { settings }]) => [name, settings]))
  return { ...managedValues(written), endpoints }
}

/** The settings of a section that need a restart. */
function startOnly(config: Config, section: keyof Config): unknown {
  return without(config[section], (runTime as JsonObject)[section])
}

const runTime = runTimeSettings(fileSchema.parse({}))

function without(value: unknown, part: unknown): unknown {
  if (part === undefined) return value
  if (!isJsonObject(value) || !isJsonObject(part)) return undefined
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, without(inner, part[key])]))
}

function declaredByName({ written }: Config) {
  return new Map(declaredProviders(written).map(provider => [provider.name, provider]))
}
