import type { ColumnSource, ParquetWriter } from 'hyparquet-writer'
import { type UsageEvent, usageEventColumnNames, usageEventColumns } from './usage-event-columns.ts'

/** A reader skips groups by their smallest and largest values; the rows of one are in memory at a time. */
const ROWS_PER_GROUP = 20_000

type Schema = ConstructorParameters<typeof ParquetWriter>[0]['schema']

/** How each type is stored: INT64 is exact, and readers know both annotations. */
const storedTypes = {
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  timestamp: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' },
  boolean: { type: 'BOOLEAN' },
  int: { type: 'INT32' },
  long: { type: 'INT64' },
} as const

const schema: Schema = [
  { name: 'usage_event', num_children: usageEventColumnNames.length },
  ...usageEventColumnNames.map(name => {
    const { type, isNullable } = usageEventColumns[name]
    return { name, ...storedTypes[type], repetition_type: isNullable ? ('OPTIONAL' as const) : ('REQUIRED' as const) }
  }),
]

/** Yields the pieces of a Parquet file with the events: a piece for each group of rows, and the list of groups at the end. */
export async function* parquetOfEvents(pages: AsyncIterable<readonly UsageEvent[]>): AsyncGenerator<Uint8Array> {
  // Few processes export, so the library is loaded here.
  const { ByteWriter, ParquetWriter } = await import('hyparquet-writer')
  const writer = new ByteWriter()
  const parquet = new ParquetWriter({ writer, schema, createdBy: 'switchyard' })
  const takeBytes = () => {
    const bytes = writer.getBytes().slice()
    writer.index = 0
    return bytes
  }
  let group: UsageEvent[] = []
  for await (const page of pages) {
    group.push(...page)
    if (group.length < ROWS_PER_GROUP) continue
    await parquet.write({ columnData: columnsOf(group), rowGroupSize: group.length })
    group = []
    yield takeBytes()
  }
  if (group.length > 0) await parquet.write({ columnData: columnsOf(group), rowGroupSize: group.length })
  await parquet.finish()
  yield takeBytes()
}

function columnsOf(events: readonly UsageEvent[]): ColumnSource[] {
  return usageEventColumnNames.map(name => ({ name, data: events.map(event => event[name]), offsetIndex: false }))
}
