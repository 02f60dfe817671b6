import { bumpControlVersion } from '../base/db/control-version.ts'
import type { Sql } from '../base/db/pool.ts'
import { ApiError } from '../base/domain/errors.ts'
import type { JsonObject } from '../base/runtime/json-object.ts'

/** The settings that operators manage at run time. */
export interface SettingsVersion {
  /** 0: there is none yet. */
  readonly version: number
  /** As in switchyard.yaml. */
  readonly settings: JsonObject
  readonly reason: string | null
  readonly at: Date | null
}

export async function readSettingsVersion(sql: Sql): Promise<SettingsVersion> {
  const { rows } = await sql.query<SettingsVersion>(
    'SELECT version, settings, reason, at FROM settings_version ORDER BY version DESC LIMIT 1',
  )
  return rows[0] ?? { version: 0, settings: {}, reason: null, at: null }
}

/** Writes the version after `version`. All nodes use it within about a second. Throws ApiError `changed_meanwhile`. */
export async function writeSettingsVersion(
  sql: Sql,
  {
    version,
    settings,
    reason,
  }: { readonly version: number; readonly settings: Readonly<Record<string, unknown>>; readonly reason: string },
): Promise<number> {
  const { rowCount } = await sql.query(
    'INSERT INTO settings_version (version, settings, reason) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
    [version + 1, JSON.stringify(settings), reason],
  )
  if (rowCount === 0) throw new ApiError('changed_meanwhile')
  await bumpControlVersion(sql, 'settings')
  return version + 1
}
