-- Looks for relations in the promotional earnings of closed days that were not looked at. Those of related customers wait for an
-- operator. Call it with the hosters locked.
CREATE OR REPLACE FUNCTION open_promotion_reviews() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_hoster uuid;
  v_customers uuid[];
  v_evidence jsonb;
BEGIN
  FOR v_hoster, v_customers IN
    SELECT s.hoster_id, array_agg(DISTINCT s.customer_id) FROM promotion_share s JOIN promotion_day d USING (hoster_id, day)
    WHERE s.state = 'open' GROUP BY s.hoster_id ORDER BY s.hoster_id
  LOOP
    SELECT jsonb_agg(e ORDER BY e.customer_id, e.evidence, e.detail) INTO v_evidence FROM promotion_evidence(v_hoster, v_customers) e;
    UPDATE promotion_share s SET state = CASE WHEN v_evidence @> jsonb_build_array(jsonb_build_object('customer_id', s.customer_id)) THEN 'waiting' ELSE 'clear' END
      FROM promotion_day d WHERE s.hoster_id = v_hoster AND d.hoster_id = v_hoster AND d.day = s.day AND s.state = 'open';
    IF v_evidence IS NOT NULL THEN
      INSERT INTO promotion_review AS r (review_id, hoster_id, share_nanos, evidence)
        VALUES (gen_random_uuid(), v_hoster, (SELECT sum(share_nanos) FROM promotion_share WHERE hoster_id = v_hoster AND state = 'waiting'), v_evidence)
        ON CONFLICT (hoster_id) WHERE state = 'waiting' DO UPDATE SET share_nanos = excluded.share_nanos, evidence = r.evidence || excluded.evidence;
    END IF;
  END LOOP;
END $$;

-- What relates the customers to a hoster that paid it with promotion credit: the evidence of related_customers, and two kinds
-- more. `circular`: the balance of the customer has received earnings of a hoster. `timing`: the customer got promotion credit
-- within ten minutes of two others that also gave most of it to this hoster.
CREATE OR REPLACE FUNCTION promotion_evidence(p_hoster uuid, p_customers uuid[]) RETURNS TABLE (customer_id uuid, evidence text, detail text)
LANGUAGE sql STABLE AS $$
  WITH given AS (
    SELECT g.customer_id, g.at FROM promotion_given(ARRAY(SELECT DISTINCT s.customer_id FROM promotion_share s WHERE s.hoster_id = p_hoster)) g
     WHERE g.nanos > 0
       AND 2 * (SELECT sum(s.share_nanos) FROM promotion_share s WHERE s.hoster_id = p_hoster AND s.customer_id = g.customer_id)
         > (SELECT sum(s.share_nanos) FROM promotion_share s WHERE s.customer_id = g.customer_id)
  ), groups AS (
    SELECT a.customer_id, a.at, count(DISTINCT b.customer_id) - 1 AS others
      FROM given a JOIN given b ON b.at BETWEEN a.at - interval '10 minutes' AND a.at + interval '10 minutes'
     WHERE a.customer_id = ANY (p_customers) GROUP BY a.customer_id, a.at
  )
  SELECT r.customer_id, r.evidence, r.detail FROM related_customers(p_hoster) r WHERE r.customer_id = ANY (p_customers)
  UNION
  SELECT e.account_id, 'circular', h.name FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
    JOIN ledger_entry o ON o.tx_id = e.tx_id AND o.account_kind = 'hoster_payable' JOIN hoster h ON h.hoster_id = o.account_id
    WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = ANY (p_customers) AND t.kind = 'earnings_moved'
  UNION
  SELECT g.customer_id, 'timing', max(g.others) || ' others' FROM groups g GROUP BY g.customer_id HAVING max(g.others) >= 2
$$;

-- Decides a review. What is withheld goes back to the promotion account, and payouts to the hoster that were not sent are
-- cancelled: the rest is in the next batch. Returns whether the review waited. For the owner of the tables: the gateway role
-- calls decide_promotion_review_by_operator. Locks the hoster, then its payouts that were not sent, then their batches in the
-- order of batch_id, then the audit log.
CREATE OR REPLACE FUNCTION decide_promotion_review(p_operator uuid, p_review uuid, p_is_released boolean, p_reason text, p_address text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  v promotion_review;
  v_payout payout;
  v_day date;
BEGIN
  PERFORM lock_hosters(ARRAY(SELECT hoster_id FROM promotion_review WHERE review_id = p_review));
  UPDATE promotion_review SET state = CASE WHEN p_is_released THEN 'released' ELSE 'withheld' END, reason = p_reason, decided_by = p_operator, decided_at = clock_timestamp()
    WHERE review_id = p_review AND state = 'waiting' RETURNING * INTO v;
  IF v.review_id IS NULL THEN
    RETURN false;
  END IF;
  IF v.state = 'withheld' THEN
    -- In the order of the batches that drop_payout locks, so that reviews of two hosters with payouts in the same batches never
    -- deadlock.
    FOR v_payout IN SELECT * FROM payout WHERE hoster_id = v.hoster_id AND state IN ('prepared', 'approved')
      ORDER BY batch_id, payout_id FOR UPDATE LOOP
      PERFORM drop_payout(v_payout, 'earnings from promotion credit were withheld');
    END LOOP;
  END IF;
  FOR v_day IN SELECT DISTINCT day FROM promotion_share WHERE hoster_id = v.hoster_id AND state = 'waiting' ORDER BY day LOOP
    UPDATE promotion_share SET state = v.state WHERE hoster_id = v.hoster_id AND day = v_day AND state = 'waiting';
    PERFORM take_promotion_excess(v.hoster_id, v_day);
  END LOOP;
  PERFORM add_audit_entry(p_operator, 'payout.promotion_' || v.state, v.hoster_id::text, NULL,
    jsonb_build_object('share_usd', trim_scale(v.share_nanos / 1e9)::text, 'reason', p_reason), p_address);
  RETURN true;
END $$;
