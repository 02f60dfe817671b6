import { readSettingsVersion } from '../../operator/settings-versions.ts'
import type { Config } from '../config/config.ts'
import { usableSettings } from '../config/usable-settings.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** The settings that operators manage, as this node uses them. */
export interface Settings {
  /** The file of this node. */
  readonly file: () => Pick<Config, 'written'>
  /** Reads what operators manage. Rejects when the database is unavailable. */
  refresh(): Promise<void>
  /** Uses another file. */
  setFile(file: Pick<Config, 'written'>): void
  /** Calls `listener` after each change. */
  onChange(listener: () => void): () => void
}

/** Loads them once; `startCallers` refreshes them when they change. */
export async function startSettings(
  { config, useSettings, log }: ComposeContext,
  { general }: Pick<Database, 'general'>,
): Promise<Settings> {
  let file: Pick<Config, 'written'> = { written: config.written }
  let managed = await readSettingsVersion(general)
  const listeners = new Set<() => void>()
  const apply = () => {
    const { settings, unused, problems } = usableSettings(managed.settings, file)
    // Such as a tier that the file of this node does not have. The other nodes may use it.
    if (problems.length > 0)
      log.error({ version: managed.version, unused, problems }, 'some managed settings do not fit and are not used')
    useSettings(settings)
    for (const listener of listeners) listener()
  }
  if (managed.version > 0) apply()
  return {
    file: () => file,
    async refresh() {
      managed = await readSettingsVersion(general)
      apply()
    },
    setFile(changed) {
      file = changed
      apply()
    },
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
