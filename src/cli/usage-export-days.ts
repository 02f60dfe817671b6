import type { Command } from 'commander'
import { tryAdvisoryLock } from '../base/db/advisory-lock.ts'
import type { Pool } from '../base/db/pool.ts'
import { placeName } from '../base/domain/backup-plan.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import { usdText } from '../base/domain/money.ts'
import {
  dueDays,
  noteWrittenDays,
  readBooks,
  readWrittenDays,
  sumsOf,
  UNWRITTEN,
  withDay,
} from '../money/usage/events/export-days.ts'
import { readUsageEvents, UsageEventsRefused } from '../money/usage/events/read-usage-events.ts'
import { usageEventFormats } from '../money/usage/events/usage-event-formats.ts'
import { noteScheduledRun } from '../operator/scheduled-run.ts'
import type { UsageExportPlan } from '../start/config/read-usage.ts'
import { openFiles } from './backup/open-files.ts'
import { createCommand, createSession, type Session } from './command.ts'
import { Busy, Failure } from './failure.ts'
import { table } from './table.ts'
import { counted } from './usage-export.ts'
import { withDatabase } from './with-database.ts'

export function exportDaysCommand(): Command {
  return createCommand('export-days', 'Write the usage events of each day that the schedule has due, now', [
    'usage export-days',
  ]).action(async options => {
    const session = createSession(options)
    const plan = session.config.usage.export
    if (plan === null)
      throw new Failure('The configuration has no place for exports. Set usage.export_to in switchyard.yaml.')
    const days = await withDatabase(session, pool => exportDays(session, pool, plan))
    session.output.result(
      { place: placeName(plan.place), format: plan.format, days },
      table(
        ['day', 'rows', 'USD', 'file'],
        days.map(({ day, rows, cost_usd, file }) => [day, String(rows), cost_usd, file]),
        'No day is due.',
      ),
    )
  })
}

/** The key of the advisory lock: `expo` in ASCII. */
const EXPORT_LOCK = 0x6578706f

type WrittenDay = Readonly<Record<'day' | 'file' | 'cost_usd', string> & { rows: number }>

/** A day is noted when its file is complete: if this process is killed in between, the next one writes the same file again. */
async function exportDays({ config, output }: Session, pool: Pool, plan: UsageExportPlan): Promise<WrittenDay[]> {
  await using locked = await tryAdvisoryLock(pool, EXPORT_LOCK)
  if (locked === undefined) throw new Busy('Another command exports these days. Wait until it has ended.')
  const files = await openFiles(plan.place)
  const target = `${placeName(plan.place)} ${plan.format}`
  const today = new Date().toISOString().slice(0, 10)
  let written = await readWrittenDays(pool, target)
  const books = await readBooks(pool, written, today)
  const done: WrittenDay[] = []
  const refused: string[] = []
  for (const day of dueDays(written, books, today)) {
    const file = `usage-${day}.${plan.format}`
    output.note(`Writing ${file}`)
    const totals = { rows: 0, costNanos: 0n }
    const span = { fromMs: Date.parse(day), untilMs: Date.parse(day) + DAY_MS }
    const events = counted(readUsageEvents(pool, span, config.usage.archiveDirectory), totals)
    try {
      await files.write(file, bytesOf(usageEventFormats[plan.format](events)))
      done.push({ day, file, rows: totals.rows, cost_usd: usdText(totals.costNanos) })
      written = withDay(written, day, sumsOf(books, day))
    } catch (error) {
      if (!(error instanceof UsageEventsRefused)) throw error
      // The other days do not wait for the archive that this one needs.
      refused.push(`${day}: ${error.message}`)
      written = withDay(written, day, UNWRITTEN)
    }
    await noteWrittenDays(pool, { target, days: written })
  }
  if (refused.length > 0) throw new Failure(refused.join('\n'))
  await noteScheduledRun(pool, 'usage_export', { atMs: Date.now(), problem: null })
  return done
}

async function* bytesOf(pieces: AsyncIterable<string | Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) yield typeof piece === 'string' ? Buffer.from(piece) : piece
}
