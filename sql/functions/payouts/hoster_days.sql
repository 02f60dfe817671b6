-- For readers. A line may have several rows.
CREATE OR REPLACE VIEW hoster_line AS
  SELECT hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos,
    refunded_nanos, refunded_share_nanos FROM hoster_day
  UNION ALL
  SELECT hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos,
    refunded_nanos, refunded_share_nanos FROM hoster_day_change;

-- Sums up the changes of at most `p_limit` rows. Returns how many there were. Locks the rows that are free, and does not wait for
-- those that another session folds.
CREATE OR REPLACE FUNCTION fold_hoster_days(p_limit integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_folded bigint;
BEGIN
  WITH folded AS (
    DELETE FROM hoster_day_change WHERE change_id IN (
      SELECT change_id FROM hoster_day_change ORDER BY change_id LIMIT p_limit FOR UPDATE SKIP LOCKED)
    RETURNING *
  ), added AS (
    INSERT INTO hoster_day AS d (hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos,
        hoster_share_nanos, fee_nanos, refunded_nanos, refunded_share_nanos)
      SELECT hoster_id, day, model_id, sum(requests), sum(successes), sum(input_tokens), sum(output_tokens), sum(cost_nanos),
        sum(hoster_share_nanos), sum(fee_nanos), sum(refunded_nanos), sum(refunded_share_nanos)
      FROM folded GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
      ON CONFLICT (hoster_id, day, model_id) DO UPDATE SET
        requests = d.requests + excluded.requests, successes = d.successes + excluded.successes,
        input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens,
        cost_nanos = d.cost_nanos + excluded.cost_nanos, hoster_share_nanos = d.hoster_share_nanos + excluded.hoster_share_nanos,
        fee_nanos = d.fee_nanos + excluded.fee_nanos, refunded_nanos = d.refunded_nanos + excluded.refunded_nanos,
        refunded_share_nanos = d.refunded_share_nanos + excluded.refunded_share_nanos
  )
  SELECT count(*) INTO v_folded FROM folded;
  RETURN v_folded;
END $$;

-- Adds a refund to the sums of its hoster, on the day of the request.
CREATE OR REPLACE FUNCTION note_hoster_refund() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO hoster_day_change (hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos,
      hoster_share_nanos, fee_nanos, refunded_nanos, refunded_share_nanos)
    SELECT hoster_id, (started_at AT TIME ZONE 'UTC')::date, model_id, 0, 0, 0, 0, 0, 0, 0, NEW.amount_nanos, NEW.hoster_share_nanos
    FROM usage_event WHERE customer_id = NEW.customer_id AND request_id = NEW.request_id AND hoster_id IS NOT NULL;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER note_hoster AFTER INSERT ON refund FOR EACH ROW EXECUTE FUNCTION note_hoster_refund();
