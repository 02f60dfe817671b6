import { resolve } from 'node:path'
import type { BackupPlace } from '../../base/domain/backup-plan.ts'
import { bucketProblems, placeOf } from './read-backup.ts'
import type { ConfigProblem } from './read-yaml.ts'
import type { FileSettings } from './schema.ts'

/** What becomes of usage rows: the section `usage` of the configuration. */
export interface UsageSettings {
  /** The usage rows of older months are archived; null: nothing is archived. The month that runs is not counted. */
  readonly keepMonths: number | null
  /** Where the files of archived months are. Absolute. */
  readonly archiveDirectory: string
  /** How each day is exported; null: it is not. */
  readonly export: UsageExportPlan | null
}

export interface UsageExportPlan {
  readonly place: BackupPlace
  readonly format: 'parquet' | 'jsonl'
}

type Sections = Pick<FileSettings, 'usage' | 'backup'>

/** Relative paths start at `cwd`. */
export function usageSettings({ usage, backup }: Sections, cwd: string, dataDir: string): UsageSettings {
  const { keep_months, archive_directory, export_to, export_format } = usage
  return {
    keepMonths: keep_months ?? null,
    archiveDirectory: resolve(cwd, archive_directory ?? resolve(cwd, dataDir, 'archive')),
    export: export_to === undefined ? null : { place: placeOf(export_to, backup.s3, cwd), format: export_format },
  }
}

/** Returns what is wrong with the section as a whole. */
export function usageProblems({ usage, backup }: Sections, where: string): ConfigProblem[] {
  return usage.export_to === undefined ? [] : bucketProblems('usage.export_to', usage.export_to, backup.s3, where)
}
