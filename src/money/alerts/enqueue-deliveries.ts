import type { Sql } from '../../base/db/pool.ts'

/** The task of the job queue that delivers one alert. */
export const DELIVER_ALERT = 'deliver_alert'

/** Attempts per alert. The queue waits e^n seconds after the n-th: three and a half hours in total. */
export const ATTEMPTS_MAX = 10

/**
 * Puts alerts into the job queue. Run it in the transaction that created them, so that each alert has exactly
 * one job after any crash. Customers with fewer waiting alerts come first, so a customer with a slow receiver
 * and many alerts does not delay others. (A named queue for each customer would do that too, but the queue
 * completes jobs in the background: its worker finds the name still taken and sleeps until the next poll.)
 */
export async function enqueueDeliveries(sql: Sql, alertIds: readonly string[]): Promise<void> {
  if (alertIds.length === 0) return
  await sql.query(
    `WITH waiting AS (
       SELECT r.customer_id, count(*) AS alerts
       FROM alert a JOIN alert_rule r USING (rule_id)
       WHERE a.delivered_at IS NULL AND r.customer_id IN (SELECT customer_id FROM alert JOIN alert_rule USING (rule_id) WHERE alert_id = ANY ($2::uuid[]))
       GROUP BY r.customer_id
     )
     SELECT graphile_worker.add_job($1, payload := json_build_object('alert_id', a.alert_id), job_key := 'alert-' || a.alert_id,
       max_attempts := $3, priority := least(w.alerts, 10000)::integer)
     FROM alert a JOIN alert_rule r USING (rule_id) JOIN waiting w USING (customer_id)
     WHERE a.alert_id = ANY ($2::uuid[])`,
    [DELIVER_ALERT, alertIds, ATTEMPTS_MAX],
  )
}
