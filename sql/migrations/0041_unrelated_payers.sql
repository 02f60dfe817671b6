-- The standing of a hoster's offer comes from several customers that pay and are not related to it. Until now the answers of
-- all customers counted.

-- The answers of one offer, at one price, that one customer has paid for with its own money.
CREATE TABLE hoster_payer (
  endpoint_id   uuid NOT NULL REFERENCES hoster_endpoint,
  model_id      text NOT NULL,
  -- The version in hoster_price.
  price_version integer NOT NULL,
  customer_id   uuid NOT NULL,
  -- Of an answer that promotion credit paid in part, a part counts.
  answers       double precision NOT NULL,
  paid_nanos    bigint NOT NULL,
  -- The customer belongs together with the hoster, or once did: leaving a hoster does not make its past customers strangers.
  is_related    boolean NOT NULL DEFAULT false,
  last_at       timestamptz NOT NULL,
  PRIMARY KEY (endpoint_id, model_id, price_version, customer_id)
) WITH (fillfactor = 70);
CREATE INDEX hoster_payer_customer ON hoster_payer (customer_id);

-- ---------------------------------------------------------------- with the functions of this version
-- Offers keep the answers that nodes have counted until now. They are divided among the customers of the hoster as its evidence is, and
-- count at the lowest price of the last 91 days. Reads sums only: at most 91 rows for each offer, and one for each hoster and customer.
INSERT INTO hoster_payer (endpoint_id, model_id, price_version, customer_id, answers, paid_nanos, last_at)
SELECT o.endpoint_id, o.model_id, o.price_version, c.customer_id, o.answered * c.share, 0, now()
  FROM (
    SELECT e.hoster_id, e.endpoint_id, d.model_id, sum(d.answered)::float8 AS answered, (
        SELECT p.version FROM hoster_price p
         WHERE p.endpoint_id = e.endpoint_id AND p.model_id = d.model_id
           AND coalesce(p.valid_until, 'infinity') > greatest(now() - interval '91 days', h.active_since)
         ORDER BY p.input_pico_per_token + p.output_pico_per_token, p.version LIMIT 1) AS price_version
      FROM server_day d JOIN hoster_endpoint e ON e.endpoint_id::text = d.endpoint_id JOIN hoster h USING (hoster_id)
     GROUP BY e.hoster_id, e.endpoint_id, d.model_id, h.active_since
  ) o
  JOIN (
    SELECT hoster_id, customer_id, reliability_good / sum(reliability_good) OVER (PARTITION BY hoster_id) AS share
      FROM hoster_customer_evidence WHERE reliability_good > 0
  ) c USING (hoster_id)
 WHERE o.price_version IS NOT NULL AND o.answered > 0
   AND c.customer_id IN (
     SELECT customer_id FROM own_money_spent(ARRAY(SELECT customer_id FROM hoster_customer_evidence)) WHERE spent_nanos > 0);
UPDATE hoster_payer SET is_related = true FROM hoster_endpoint e
 WHERE e.endpoint_id = hoster_payer.endpoint_id
   AND (e.hoster_id, hoster_payer.customer_id) IN (SELECT hoster_id, customer_id FROM related_customers());
