-- The sequential tests keep a sum for each alternative (src/market/trust/change-evidence.ts): a list of one replaces the number.
UPDATE hoster_trust SET evidence = jsonb_set(evidence, '{signals}', (
  SELECT coalesce(jsonb_object_agg(key, jsonb_set(value, '{started}', jsonb_build_array(value -> 'started'))), '{}')
    FROM jsonb_each(evidence -> 'signals')
   WHERE jsonb_typeof(value -> 'started') = 'number'))
WHERE evidence -> 'signals' <> '{}';

-- Distances of panels have another scale now: words until the answers part, over several prompts. Earlier ones must not be compared
-- with them. The audits stay in the sums of the score.
DELETE FROM hoster_audit WHERE kind IN ('agreement', 'fingerprint');

-- fingerprint, agreement: the distance of the prompt with the largest one; `statistic` is that over all prompts.
ALTER TABLE hoster_audit ADD COLUMN worst double precision;

-- The same for the same card or bank account of all customers, without its number. Customers that share it with a customer of a hoster count for
-- nothing in the hoster's trust. NULL: saved earlier, or the provider has none. Removed methods count too.
ALTER TABLE payment_method ADD COLUMN identity text;
CREATE INDEX payment_method_identity ON payment_method (identity) WHERE identity IS NOT NULL;
