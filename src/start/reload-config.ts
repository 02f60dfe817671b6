import { isDeepStrictEqual } from 'node:util'
import type { ConfigReload } from '../base/domain/config-reload.ts'
import type { Log } from '../base/runtime/log.ts'
import { differencesOf } from '../market/supply/providers/providers.ts'
import { type Config, ConfigError } from './config/config.ts'
import { declaredProviders } from './config/read-endpoint.ts'

/**
 * Creates what reads the configuration again, and uses its endpoints. A configuration that is wrong changes nothing. The
 * log says what was used, what is wrong, and what needs a restart. One call runs at a time.
 *
 * @param options.readAgain throws ConfigError
 * @param options.use uses the endpoints of another configuration, at all nodes of this process
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
    current = changed
    log.info({ endpoints: changed.endpoints.map(({ name }) => name) }, 'the endpoints were read again')
    const needsRestart = (Object.keys(config) as (keyof Config)[]).filter(
      key => key !== 'endpoints' && key !== 'written' && !isDeepStrictEqual(config[key], changed[key]),
    )
    if (needsRestart.length > 0)
      log.warn({ settings: needsRestart }, 'other settings have changed too: they need a restart')
    const names = [...after.keys()]
    return {
      problem: null,
      file: changed.configFile,
      changes: differencesOf(
        { endpoints: Object.fromEntries([...before].map(([name, { settings }]) => [name, settings])) },
        { endpoints: Object.fromEntries([...after].map(([name, { settings }]) => [name, settings])) },
      ),
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

function declaredByName({ written }: Config) {
  return new Map(declaredProviders(written).map(provider => [provider.name, provider]))
}
