import type { UsageEventFormat } from '../../../wire/api/operator/usage.ts'
import { jsonLinesOfEvents } from './json-lines-of-events.ts'
import { parquetOfEvents } from './parquet-of-events.ts'
import type { UsageEvent } from './usage-event-columns.ts'

type WriteEvents = (pages: AsyncIterable<readonly UsageEvent[]>) => AsyncGenerator<string | Uint8Array>

/** Writes usage events in each format, as they are read. */
export const usageEventFormats: Readonly<Record<UsageEventFormat, WriteEvents>> = {
  parquet: parquetOfEvents,
  jsonl: jsonLinesOfEvents,
}
