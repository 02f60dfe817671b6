import { POSTGRES_MAJOR } from '../../base/db/postgres-programs.ts'
import { isJsonObject } from '../../base/runtime/json-object.ts'
import { DamagedArchive } from './archive.ts'

/** The first entry of a backup: what it is and which programs can read it. */
export const DESCRIPTION = 'backup.json'

export interface BackupDescription {
  /** The format of the archive. */
  readonly format: number
  /** When the backup began, ISO 8601 in UTC: it has every charge that was safe by then. */
  readonly started_at: string
  /** Version of the Switchyard that made it. */
  readonly switchyard: string
  /** Major version of the PostgreSQL that wrote the files of the database. */
  readonly postgres: string
}

export const BACKUP_FORMAT = 1

/** Throws an Error for the operator if this program cannot restore the backup. */
export function parseDescription(path: string, text: string): BackupDescription {
  const { format, started_at, switchyard, postgres } = parseObject(path, text)
  if (format !== BACKUP_FORMAT)
    throw new Error(
      `${path} was made by Switchyard ${switchyard} and has the format ${format}; this version reads the format ${BACKUP_FORMAT}. Restore it with the version that made it.`,
    )
  if (postgres !== POSTGRES_MAJOR)
    throw new Error(
      `${path} has the files of PostgreSQL ${postgres}, but this Switchyard comes with PostgreSQL ${POSTGRES_MAJOR}. Restore it with the Switchyard version that made it (${switchyard}), dump the database, and load the dump into a new data directory.`,
    )
  return { format, started_at: String(started_at), switchyard: String(switchyard), postgres }
}

function parseObject(path: string, text: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(text)
    if (isJsonObject(parsed)) return parsed
  } catch {
    // Reported below, like JSON of another type.
  }
  throw new DamagedArchive(`${path} is not a backup: its ${DESCRIPTION} is invalid.`)
}
