import type { Sql } from '../../base/db/pool.ts'
import { groupBy } from '../../base/runtime/collections.ts'
import type { DaySpan } from '../../wire/api/day-span.ts'
import type { HosterTraffic } from '../../wire/api/hoster-console.ts'

/**
 * Adds the usage rows that began after `fromMs`, up to and with `toMs`, to the traffic of hosters. Run it in the
 * transaction that remembers `toMs`, so that each row counts once. All attempts count, also those of requests that
 * another server answered.
 */
export async function addTraffic(
  sql: Sql,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<void> {
  const span = [new Date(fromMs), new Date(toMs)]
  await sql.query({ name: 'add_hoster_attempts', text: ADD_ATTEMPTS }, span)
  await sql.query({ name: 'add_hoster_tokens', text: ADD_TOKENS }, span)
}

// The id of an offer is that of its endpoint, a slash and the model. A number in `attempts` is one attempt that was
// answered by the server of the row: see storeAttempts.
const ADD_ATTEMPTS = `
INSERT INTO hoster_attempt_day AS d (hoster_id, day, model_id, outcome, attempts)
SELECT hoster_id, day, model_id, outcome, count(*) FROM (
  SELECT hoster_id, (started_at AT TIME ZONE 'UTC')::date AS day, model_id, 'answered' AS outcome
    FROM usage_event
   WHERE started_at > $1 AND started_at <= $2 AND hoster_id IS NOT NULL AND json_typeof(attempts) = 'number'
  UNION ALL
  SELECT e.hoster_id, (u.started_at AT TIME ZONE 'UTC')::date, substr(a ->> 'offerId', length(a ->> 'endpointId') + 2), a ->> 'outcome'
    FROM usage_event u,
      json_array_elements(CASE WHEN json_typeof(u.attempts) = 'array' THEN u.attempts ELSE '[]' END) a
      JOIN hoster_endpoint e ON e.endpoint_id::text = a ->> 'endpointId'
   WHERE u.started_at > $1 AND u.started_at <= $2 AND a ->> 'provider' = 'hoster'
) attempt GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
ON CONFLICT (hoster_id, day, model_id, outcome) DO UPDATE SET attempts = d.attempts + excluded.attempts`

const ADD_TOKENS = `
INSERT INTO hoster_tokens_day AS d (hoster_id, day, model_id, requests, reported_input, counted_input, billed_input, reported_output,
  counted_output, billed_output)
SELECT hoster_id, (started_at AT TIME ZONE 'UTC')::date, model_id, count(*), sum(reported_input_tokens), sum(counted_input_tokens),
  sum(input_tokens), sum(reported_output_tokens), sum(counted_output_tokens), sum(output_tokens)
FROM usage_event
WHERE started_at > $1 AND started_at <= $2 AND hoster_id IS NOT NULL AND outcome = 'served'
  AND reported_input_tokens IS NOT NULL AND counted_input_tokens IS NOT NULL
  AND reported_output_tokens IS NOT NULL AND counted_output_tokens IS NOT NULL
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
ON CONFLICT (hoster_id, day, model_id) DO UPDATE SET requests = d.requests + excluded.requests,
  reported_input = d.reported_input + excluded.reported_input, counted_input = d.counted_input + excluded.counted_input,
  billed_input = d.billed_input + excluded.billed_input, reported_output = d.reported_output + excluded.reported_output,
  counted_output = d.counted_output + excluded.counted_output, billed_output = d.billed_output + excluded.billed_output`

interface AttemptRow {
  readonly day: string
  readonly model: string
  readonly outcome: string
  readonly attempts: bigint
}

interface TokensRow {
  readonly day: string
  readonly model: string
  readonly requests: bigint
  readonly reportedInput: bigint
  readonly countedInput: bigint
  readonly billedInput: bigint
  readonly reportedOutput: bigint
  readonly countedOutput: bigint
  readonly billedOutput: bigint
}

/** Returns the traffic of a hoster on UTC days. Reads sums, and no requests. */
export async function showTraffic(sql: Sql, hosterId: string, { from, until }: DaySpan): Promise<HosterTraffic> {
  const { rows: attempts } = await sql.query<AttemptRow>(
    `SELECT to_char(day, 'YYYY-MM-DD') AS day, model_id AS model, outcome, attempts FROM hoster_attempt_day
      WHERE hoster_id = $1 AND day BETWEEN $2 AND $3 ORDER BY hoster_attempt_day.day, model_id, outcome`,
    [hosterId, from, until],
  )
  const { rows: tokens } = await sql.query<TokensRow>(
    `SELECT to_char(day, 'YYYY-MM-DD') AS day, model_id AS model, requests, reported_input AS "reportedInput", counted_input AS "countedInput",
       billed_input AS "billedInput", reported_output AS "reportedOutput", counted_output AS "countedOutput", billed_output AS "billedOutput"
     FROM hoster_tokens_day WHERE hoster_id = $1 AND day BETWEEN $2 AND $3`,
    [hosterId, from, until],
  )
  const lineOf = ({ day, model }: { day: string; model: string }) => `${day} ${model}`
  const counted = new Map(tokens.map(row => [lineOf(row), row]))
  return {
    object: 'hoster.traffic',
    from,
    until,
    data: [...groupBy(attempts, lineOf)].map(([line, rows]) => {
      const { day, model } = rows[0]
      const sums = counted.get(line)
      const number = (field: keyof TokensRow) => Number(sums?.[field] ?? 0)
      return {
        day,
        model,
        answered: Number(rows.find(({ outcome }) => outcome === 'answered')?.attempts ?? 0),
        failed: Object.fromEntries(
          rows.filter(({ outcome }) => outcome !== 'answered').map(row => [row.outcome, Number(row.attempts)]),
        ),
        compared_requests: number('requests'),
        input_tokens: {
          reported: number('reportedInput'),
          counted: number('countedInput'),
          billed: number('billedInput'),
        },
        output_tokens: {
          reported: number('reportedOutput'),
          counted: number('countedOutput'),
          billed: number('billedOutput'),
        },
      }
    }),
  }
}
