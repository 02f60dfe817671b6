import { hostname } from 'node:os'
import { basename, join, resolve } from 'node:path'
import type { Command } from 'commander'
import { tryAdvisoryLock } from '../base/db/advisory-lock.ts'
import { noteAction } from '../base/db/audit-log.ts'
import { type FileLock, tryFileLock } from '../base/db/file-lock.ts'
import { makeDirectory } from '../base/db/make-directory.ts'
import type { Pool } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { usdText } from '../base/domain/money.ts'
import { systemErrorText } from '../base/runtime/error-message.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { ArchiveRefused, archiveMonth } from '../money/ledger/archive/archive-month.ts'
import { archivableBefore, listUsageMonths, type UsageMonth } from '../money/ledger/archive/usage-months.ts'
import { audit } from '../money/ledger/audit/audit.ts'
import { noteScheduledRun } from '../operator/scheduled-run.ts'
import { monthArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession, type Session } from './command.ts'
import { confirm } from './confirm.ts'
import { Busy, Failure } from './failure.ts'
import { table } from './table.ts'
import { exportUsageCommand } from './usage-export.ts'
import { exportDaysCommand } from './usage-export-days.ts'
import { withDatabase } from './with-database.ts'

export function usageCommands(): Command {
  return createCommandGroup('usage', 'Archive and export usage rows', [
    archiveCommand(),
    exportUsageCommand(),
    exportDaysCommand(),
  ])
}

function archiveCommand(): Command {
  return createCommand('archive', 'Move the usage rows of past months from the database to files', [
    'usage archive --before 2026-01 --dry-run',
    'usage archive --before 2026-01 --out /backup/usage --yes',
  ])
    .requiredOption('--before <month>', 'archive the months before this one, such as 2026-01; required', monthArgument)
    .option('--out <dir>', 'directory of the files; default: usage.archive_directory of the configuration')
    .option('--dry-run', 'show what would be archived; change nothing')
    .option('--yes', 'do not ask for confirmation')
    .action(async options => {
      const session = createSession(options)
      const directory = resolve((options.out as string | undefined) ?? session.config.usage.archiveDirectory)
      const isDryRun = options.dryRun === true
      await withDatabase(session, async pool => {
        await requireNoRefunds(pool, options.before)
        const months = await listUsageMonths(pool, options.before)
        if (months.length === 0 || isDryRun) {
          report(session, months.map(planned), { directory, isDryRun })
          return
        }
        const requests = months.reduce((sum, month) => sum + month.requests, 0n)
        if (options.yes !== true) {
          const question = `Move ${requests} usage rows of ${months.length} months to ${directory}? Their requests can then not be refunded.`
          await confirm(session, question, 'Add --yes to confirm.')
        }
        await requireCleanAudit(session, pool)
        report(session, await archiveAll(session, pool, months, directory), { directory, isDryRun })
      })
    })
}

async function requireNoRefunds(pool: Pool, before: string): Promise<void> {
  const limit = await archivableBefore(pool)
  if (before <= limit) return
  throw new Failure(
    `Requests can be refunded for 30 days after their month. Today, months before ${limit} can be archived. Nothing was changed.`,
  )
}

/** Some checks read single rows, so they cannot find a violation once its row is archived. */
async function requireCleanAudit({ output }: Session, pool: Pool): Promise<void> {
  output.note('Auditing the ledger before its rows are archived')
  const violated = (await audit(pool)).filter(({ violations }) => violations > 0)
  if (violated.length === 0) return
  throw new Failure(
    `The audit found violations (${violated.map(({ name }) => name).join(', ')}). Run ${ownCommand('ledger audit')} for details. Nothing was changed.`,
  )
}

/** The key of the advisory lock: `arch` in ASCII. */
const ARCHIVE_LOCK = 0x61726368

async function archiveAll(
  { output }: Session,
  pool: Pool,
  months: readonly UsageMonth[],
  directory: string,
): Promise<ReportedMonth[]> {
  await using locked = await tryAdvisoryLock(pool, ARCHIVE_LOCK)
  if (locked === undefined) throw new Busy('Another command archives usage rows. Wait until it has ended.')
  const lock = lockDirectory(directory)
  const done: ReportedMonth[] = []
  try {
    for (const month of months) {
      output.note(`${month.isFrozen ? 'Continuing with' : 'Archiving'} ${month.month}: ${month.requests} rows`)
      const { path, sha256, bytes } = await archiveMonth(pool, month.month, directory)
      done.push({ ...planned(month), file: path, sha256, fileBytes: bytes })
      const place = { host: hostname(), directory, file: basename(path) }
      const detail = { ...place, sha256, rows: Number(month.requests) }
      await noteAction(pool, { ...commandLine, action: 'usage.archived', subject: month.month, detail })
    }
    await noteScheduledRun(pool, 'usage_archive', { atMs: Date.now(), problem: null })
    return done
  } catch (error) {
    if (!(error instanceof ArchiveRefused)) throw error
    const archived = done.length === 0 ? 'Nothing' : done.map(({ month }) => month).join(', ')
    throw new Failure(`${error.message} ${archived} was archived.`)
  } finally {
    lock.release()
  }
}

/** Keeps archives of other databases out of the directory. Throws Failure if it cannot be written. */
function lockDirectory(directory: string): FileLock {
  let lock: FileLock | undefined
  try {
    makeDirectory(directory, 0o700)
    lock = tryFileLock(join(directory, '.lock'), 'exclusive')
  } catch (error) {
    throw new Failure(`Cannot write to ${directory}: ${systemErrorText(error)}. Nothing was archived.`)
  }
  if (lock === undefined) throw new Busy(`Another command archives to ${directory}. Wait until it has ended.`)
  return lock
}

interface ReportedMonth extends UsageMonth {
  readonly file: string | null
  readonly sha256: string | null
  readonly fileBytes: number | null
}

const planned = (month: UsageMonth): ReportedMonth => ({ ...month, file: null, sha256: null, fileBytes: null })

function report(
  { output }: Session,
  months: readonly ReportedMonth[],
  { directory, isDryRun }: { directory: string; isDryRun: boolean },
): void {
  output.result(
    {
      directory,
      dry_run: isDryRun,
      months: months.map(each => ({
        month: each.month,
        rows: Number(each.requests),
        kept_rows: Number(each.keptRequests),
        cost_usd: usdText(each.costNanos),
        freed_bytes: Number(each.bytes),
        file: each.file,
        file_bytes: each.fileBytes,
        sha256: each.sha256,
      })),
    },
    table(
      ['month', 'rows', 'kept', 'USD', 'MB freed', 'file'],
      months.map(({ month, requests, keptRequests, costNanos, bytes, file }) => [
        month,
        ...[String(requests), String(keptRequests), usdText(costNanos), (Number(bytes) / 1e6).toFixed(1), file ?? '-'],
      ]),
      '',
    ),
  )
  output.note(noteOf(months, isDryRun))
}

function noteOf(months: readonly ReportedMonth[], isDryRun: boolean): string {
  if (months.length === 0) return 'No earlier month has usage rows in the database. Nothing was changed.'
  return isDryRun
    ? 'Nothing was changed. Kept rows belong to refunded requests: they are in the file and stay in the database.'
    : 'Keep the files: the database has only sums of these rows. Check them with: sha256sum -c *.sha256'
}
