import { resolve } from 'node:path'
import type { BackupPlace, BackupPlan } from '../../base/domain/backup-plan.ts'
import type { ConfigProblem } from './read-yaml.ts'
import type { FileSettings } from './schema.ts'

type BackupSettings = FileSettings['backup']

/** Returns the plan for backups; null if none are wanted. Relative paths start at `cwd`. */
export function backupPlan(settings: BackupSettings, cwd: string): BackupPlan | null {
  if (settings.to === undefined) return null
  return {
    place: placeOf(settings.to, settings.s3, cwd),
    everyHours: settings.every_hours,
    atMinute: settings.at,
    keepDays: settings.keep_days,
    keepWeeks: settings.keep_weeks,
    alarmAfterHours: settings.alarm_after_hours,
    testDays: settings.test_restore_days,
    testDirectory: settings.test_directory === undefined ? null : resolve(cwd, settings.test_directory),
    includesSecrets: settings.include_secrets,
  }
}

/** Returns the directory, or the bucket with the access of `backup.s3`. */
export function placeOf(to: string, s3: BackupSettings['s3'], cwd: string): BackupPlace {
  if (!isBucket(to)) return { kind: 'directory', path: resolve(cwd, to) }
  const [bucket = '', ...folders] = to.slice(SCHEME.length).split('/')
  const path = folders.filter(folder => folder !== '')
  return {
    kind: 'bucket',
    endpoint: s3.endpoint ?? '',
    region: s3.region,
    bucket,
    prefix: path.map(folder => `${folder}/`).join(''),
    accessKeyId: s3.access_key_id ?? '',
    secretAccessKey: s3.secret_access_key ?? '',
    isPathStyle: s3.path_style,
  }
}

const SCHEME = 's3://'
const isBucket = (to: string) => to.startsWith(SCHEME)

/** Returns what is wrong with the section as a whole. */
export function backupProblems(
  { to, s3, every_hours: everyHours }: BackupSettings,
  hasDatabaseUrl: boolean,
  where: string,
): ConfigProblem[] {
  if (to === undefined) return []
  const problem = (key: string, message: string) => ({ where, line: null, key: `backup.${key}`, message })
  return [
    ...bucketProblems('backup.to', to, s3, where),
    ...(hasDatabaseUrl
      ? [
          problem(
            'to',
            'is set, and so is DATABASE_URL; the gateway backs up its embedded PostgreSQL only. Use pgBackRest or the means of your provider',
          ),
        ]
      : []),
    ...(24 % everyHours === 0
      ? []
      : [problem('every_hours', `is ${everyHours}, which does not divide a day; write 1, 2, 3, 4, 6, 8, 12 or 24`)]),
  ]
}

/** Returns what is missing for the bucket of the key `name`. */
export function bucketProblems(name: string, to: string, s3: BackupSettings['s3'], where: string): ConfigProblem[] {
  if (!isBucket(to)) return []
  const missing = (['endpoint', 'access_key_id', 'secret_access_key'] as const).filter(key => s3[key] === undefined)
  const message = `is missing, and ${name} is a bucket`
  return missing.map(key => ({ where, line: null, key: `backup.s3.${key}`, message }))
}
