import { once } from 'node:events'
import { Readable } from 'node:stream'
import { noteAction } from '../base/db/audit-log.ts'
import type { Sql } from '../base/db/pool.ts'
import type { Acting } from '../base/domain/acting.ts'
import { ApiError } from '../base/domain/errors.ts'
import { readUsageEvents, UsageEventsRefused } from '../money/usage/events/read-usage-events.ts'
import { usageEventFormats } from '../money/usage/events/usage-event-formats.ts'
import type { UsageEventFormat, UsageEventSpan } from '../wire/api/operator/usage.ts'
import { createExportPlaces } from './export-places.ts'

/** Each parquet export holds a group of 20,000 events in memory. */
const EXPORTS_MAX = 2

/**
 * Returns the function that exports the usage events of all customers, and notes that in the audit log before anything is read. The
 * stream holds no connection while its reader takes a page; it ends with an error when it cannot be completed. Rejects with ApiError:
 * `too_many_concurrent_requests`, `database_unavailable`, or `changed_meanwhile` when the file of an archived month is missing.
 *
 * @param archives the directory of the files of archived months
 */
export function createUsageEventsExport(sql: Sql, archives: () => string) {
  const takePlace = createExportPlaces(EXPORTS_MAX)
  return (acting: Acting, span: UsageEventSpan, format: UsageEventFormat): Promise<Readable> =>
    takePlace(
      async () => {
        const { personId, keyId, address } = acting
        const [from, to] = [span.fromMs, span.untilMs].map(ms => new Date(ms).toISOString())
        const entry = { personId, keyId, address, subject: 'usage events', detail: { from, to, format } }
        await noteAction(sql, { ...entry, action: 'usage.exported' })
        const events = readUsageEvents(sql, span, archives())
        const file = Readable.from(usageEventFormats[format](events), { highWaterMark: 1 })
        try {
          // The first page is read before the answer begins, so that an outage is an error and no broken file.
          await once(file, 'readable')
        } catch (error) {
          throw error instanceof UsageEventsRefused
            ? new ApiError('changed_meanwhile', { message: error.message, internal: error })
            : error
        }
        return file
      },
      file => file,
    )
}
