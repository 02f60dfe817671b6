import type { Sql } from '../../../base/db/pool.ts'
import type { ReportedUse } from '../meter-audit.ts'
import type { Span } from './read-requests.ts'

/** A sampled report of one endpoint. */
export interface SampledReport extends ReportedUse {
  readonly modelId: string
  readonly endpointId: string
  /** Null: a local server of the operator. */
  readonly hosterId: string | null
}

/**
 * The most reports of a span that are read at one endpoint for one model: from one customer, and from all customers.
 */
const OF_CUSTOMER_MAX = 4
const OF_ENDPOINT_MAX = 64

/**
 * Samples the reports of a span that the gateway has counts for: at hosters, and at local servers with a model that
 * hosters offer. The hash of the request id decides, so a hoster cannot influence it. Left out: answers with media,
 * which the gateway does not count, and customers that are related to the hoster.
 */
export async function readReports(sql: Sql, span: Span): Promise<SampledReport[]> {
  const { rows } = await sql.query<SampledReport>({ name: 'trust_read_reports', text: SAMPLE }, [
    new Date(span.fromMs),
    new Date(span.toMs),
    OF_CUSTOMER_MAX,
    OF_ENDPOINT_MAX,
  ])
  return rows
}

const SAMPLE = `
WITH report AS MATERIALIZED (
    SELECT model_id, endpoint_id, hoster_id, customer_id, request_id, reported_input_tokens, counted_input_tokens,
      reported_output_tokens, counted_output_tokens,
      row_number() OVER (PARTITION BY model_id, endpoint_id, customer_id ORDER BY md5(request_id::text)) AS of_customer
    FROM usage_event
    WHERE started_at > $1 AND started_at <= $2 AND outcome = 'served' AND provider IN ('hoster', 'local')
      AND counted_input_tokens IS NOT NULL AND counted_output_tokens > 0
      AND reported_input_tokens > 0 AND reported_output_tokens > 0
      AND other_parts IS NULL
  ),
  related AS MATERIALIZED (SELECT DISTINCT hoster_id, customer_id FROM related_customers()),
  ranked AS (
    SELECT *, row_number() OVER (PARTITION BY model_id, endpoint_id ORDER BY md5(request_id::text)) AS of_endpoint
    FROM report r
    WHERE of_customer <= $3
      AND NOT EXISTS (SELECT FROM related WHERE related.hoster_id = r.hoster_id AND related.customer_id = r.customer_id)
  )
SELECT model_id AS "modelId", endpoint_id AS "endpointId", hoster_id AS "hosterId", customer_id AS "customerId",
  reported_input_tokens AS "reportedInput", counted_input_tokens AS "countedInput",
  reported_output_tokens AS "reportedOutput", counted_output_tokens AS "countedOutput"
FROM ranked WHERE of_endpoint <= $4 ORDER BY model_id, endpoint_id, md5(request_id::text)`
