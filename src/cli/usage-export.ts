import { resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Command, Option } from 'commander'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { readUsageEvents, UsageEventsRefused } from '../money/usage/events/read-usage-events.ts'
import type { UsageEvent } from '../money/usage/events/usage-event-columns.ts'
import { usageEventFormats } from '../money/usage/events/usage-event-formats.ts'
import type { UsageEventFormat } from '../wire/api/operator/usage.ts'
import { dayArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { withDatabase } from './with-database.ts'
import { writeNewFile } from './write-new-file.ts'

export function exportUsageCommand(): Command {
  return createCommand('export', 'Write the usage events of all customers to a file, for analysis elsewhere', [
    'usage export --from 2026-01-01 --to 2026-02-01 --out usage-2026-01.parquet',
    'usage export --format jsonl --from 2026-01-01 --out -',
  ])
    .addOption(
      new Option('--format <format>', 'parquet or jsonl, which is JSON lines')
        .choices(Object.keys(usageEventFormats))
        .default('parquet'),
    )
    .requiredOption('--from <day>', 'first UTC day; required', dayArgument)
    .option('--to <day>', 'last UTC day, exclusive; default: now', dayArgument)
    .requiredOption('--out <file>', 'file to write, which only its owner can read; - writes to stdout; required')
    .option('--archives <dir>', 'directory with the files of archived months; default: usage.archive_directory')
    .action(async options => {
      const session = createSession(options)
      const {
        from,
        to = null,
        out,
        format,
      } = options as Record<'from' | 'out', string> & {
        readonly to?: string
        readonly format: UsageEventFormat
      }
      const span = { fromMs: Date.parse(from), untilMs: to === null ? Date.now() : Date.parse(to) }
      if (span.fromMs >= span.untilMs) throw new UsageError('--from must be before --to.')
      const archives = resolve((options.archives as string | undefined) ?? session.config.usage.archiveDirectory)
      const totals = { rows: 0, costNanos: 0n }
      const path = await withDatabase(session, pool =>
        write(out, usageEventFormats[format](counted(readUsageEvents(pool, span, archives), totals))),
      ).catch((error: unknown) => {
        throw error instanceof UsageEventsRefused ? new Failure(error.message) : error
      })
      const cost = usdText(totals.costNanos)
      session.output.note(`Exported ${totals.rows} usage events with charges of ${cost} USD.`)
      if (path !== null)
        session.output.result({ file: path, format, from, to, rows: totals.rows, cost_usd: cost }, `Wrote ${path}.`)
    })
}

/** Passes pages on, and adds them to `totals`. */
export async function* counted(
  pages: AsyncIterable<UsageEvent[]>,
  totals: { rows: number; costNanos: Nanos },
): AsyncGenerator<UsageEvent[]> {
  for await (const page of pages) {
    totals.rows += page.length
    for (const { cost_nanos } of page) totals.costNanos += cost_nanos
    yield page
  }
}

/** Writes to a new file, or to stdout. Returns the path; null: stdout. Throws Failure if there is such a file. */
async function write(out: string, pieces: AsyncIterable<string | Uint8Array>): Promise<string | null> {
  const source = Readable.from(pieces, { highWaterMark: 1 })
  if (out === '-') {
    await pipeline(source, process.stdout, { end: false })
    return null
  }
  return writeNewFile(out, () => source)
}
