/** Whole amounts of money and prices are `long`: exact, never floating point. */
type ColumnType = 'text' | 'timestamp' | 'boolean' | 'int' | 'long'

interface UsageEventColumn {
  readonly type: ColumnType
  readonly isNullable: boolean
}

const required = <Type extends ColumnType>(type: Type) => ({ type, isNullable: false }) as const
const optional = <Type extends ColumnType>(type: Type) => ({ type, isNullable: true }) as const

/**
 * The columns of an exported usage event, which are columns of the table `usage_event`. Programs depend on them: add new ones at the
 * end, and rename none. docs/operating.md says what each means.
 */
export const usageEventColumns = {
  request_id: required('text'),
  started_at: required('timestamp'),
  customer_id: required('text'),
  key_id: optional('text'),
  member_id: optional('text'),
  label: optional('text'),
  model_id: required('text'),
  provider: required('text'),
  endpoint_id: optional('text'),
  hoster_id: optional('text'),
  success: required('boolean'),
  outcome: required('text'),
  finish_reason: optional('text'),
  usage_source: required('text'),
  input_tokens: required('int'),
  output_tokens: required('int'),
  cache_read_tokens: optional('int'),
  cache_write_tokens: optional('int'),
  reasoning_tokens: optional('int'),
  latency_ms: required('int'),
  first_token_ms: optional('int'),
  input_pico_per_token: required('long'),
  output_pico_per_token: required('long'),
  price_group: optional('text'),
  cost_nanos: required('long'),
  hoster_share_nanos: required('long'),
  fee_nanos: required('long'),
  writeoff_nanos: required('long'),
  upstream_cost_nanos: optional('long'),
} as const satisfies Record<string, UsageEventColumn>

type Columns = typeof usageEventColumns
export type UsageEventColumnName = keyof Columns

interface Values {
  readonly text: string
  readonly timestamp: Date
  readonly boolean: boolean
  readonly int: number
  readonly long: bigint
}

/** A request that was admitted, as it was settled: later refunds are not in it. */
export type UsageEvent = {
  readonly [Name in UsageEventColumnName]:
    | Values[Columns[Name]['type']]
    | (Columns[Name]['isNullable'] extends true ? null : never)
}

export const usageEventColumnNames = Object.keys(usageEventColumns) as UsageEventColumnName[]

/** Reads a row as `row_to_json` writes it, in the database and in archives. Throws for a row that is none. */
export function readUsageEvent(line: string): UsageEvent {
  const stored = JSON.parse(line) as Readonly<Record<string, unknown>>
  // Archives of earlier versions lack columns that were added later; those are nullable.
  const values = usageEventColumnNames.map(name => [name, readValue(name, stored[name] ?? null)])
  return Object.fromEntries(values) as UsageEvent
}

function readValue(name: UsageEventColumnName, stored: unknown): unknown {
  const { type, isNullable } = usageEventColumns[name]
  if (stored === null && isNullable) return null
  if (type === 'timestamp' && typeof stored === 'string') return new Date(stored)
  if (type === 'text' && typeof stored === 'string') return stored
  if (type === 'boolean' && typeof stored === 'boolean') return stored
  // JSON has no larger whole number that is exact. A charge of 9 million USD is still below it.
  if (type === 'int' && Number.isSafeInteger(stored)) return stored
  if (type === 'long' && Number.isSafeInteger(stored)) return BigInt(stored as number)
  throw new Error(`A usage row has no ${type} as ${name}: ${JSON.stringify(stored)}.`)
}
