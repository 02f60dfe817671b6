-- Hosters name their models themselves. A name that nobody knows may promise a model that does not exist, so an operator decides about
-- it once, for all hosters. Ids that are not in this table wait.
CREATE TABLE hoster_model (
  model_id      text PRIMARY KEY,
  state         text NOT NULL CHECK (state IN ('approved', 'refused')),
  -- For the hoster.
  reason        text NOT NULL,
  -- NULL: the command line, or the gateway itself for an id of its own servers or of known open weights.
  person_id     uuid,
  decided_at    timestamptz NOT NULL DEFAULT now()
);

-- What hosters offer already, they go on offering.
INSERT INTO hoster_model (model_id, state, reason)
SELECT DISTINCT p.model_id, 'approved', 'It was offered before ids needed an approval.'
  FROM hoster_price p JOIN hoster_endpoint USING (endpoint_id) JOIN hoster h USING (hoster_id)
 WHERE p.valid_until IS NULL AND h.active_since IS NOT NULL AND h.state <> 'retired';

-- How many comparisons with a server of the operator a hoster has passed with a model, less those that failed ones took back:
-- insertAudit of src/market/trust/evidence/audit-store.ts counts.
CREATE TABLE hoster_comparison (
  hoster_id     uuid NOT NULL REFERENCES hoster,
  model_id      text NOT NULL,
  passes        integer NOT NULL CHECK (passes >= 0),
  PRIMARY KEY (hoster_id, model_id)
);
INSERT INTO hoster_comparison (hoster_id, model_id, passes)
SELECT hoster_id, model_id, greatest(0, least(10, count(*) FILTER (WHERE passed) - 5 * count(*) FILTER (WHERE NOT passed)))
  FROM hoster_audit WHERE kind = 'sampling' AND hoster_id IS NOT NULL GROUP BY hoster_id, model_id;
