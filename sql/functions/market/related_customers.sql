-- Customers that belong together with a hoster, or with any hoster: one row for each kind of evidence. `member`: a person is a
-- member of both. `network`, `device`: a member of one signed in from there like a member of the other. `earnings`: the balance
-- of the customer receives those of the hoster. `payment_method`: the customer pays with the card or bank account of a customer
-- with one of the others. `detail` says which person, network or card; a device has no name.
CREATE OR REPLACE FUNCTION related_customers(p_hoster uuid DEFAULT NULL)
RETURNS TABLE (hoster_id uuid, customer_id uuid, evidence text, detail text)
LANGUAGE sql STABLE AS $$
  WITH person_of_hoster AS (
    SELECT m.hoster_id, m.person_id FROM hoster_member m WHERE p_hoster IS NULL OR m.hoster_id = p_hoster
  ),
  direct AS MATERIALIZED (
    SELECT h.hoster_id, m.customer_id, 'member' AS evidence, p.email AS detail
      FROM person_of_hoster h JOIN membership m USING (person_id) JOIN person p USING (person_id)
    UNION
    SELECT h.hoster_id, m.customer_id, 'network', own.network
      FROM person_of_hoster h JOIN person_network own USING (person_id)
      JOIN person_network other ON other.network = own.network AND other.person_id <> own.person_id
      JOIN membership m ON m.person_id = other.person_id
    UNION
    SELECT h.hoster_id, m.customer_id, 'device', NULL
      FROM person_of_hoster h JOIN person_device own USING (person_id)
      JOIN person_device other ON other.device_hash = own.device_hash AND other.person_id <> own.person_id
      JOIN membership m ON m.person_id = other.person_id
    UNION
    SELECT a.hoster_id, a.customer_id, 'earnings', NULL
      FROM hoster_account a WHERE a.customer_id IS NOT NULL AND (p_hoster IS NULL OR a.hoster_id = p_hoster)
  )
  SELECT * FROM direct
  UNION
  SELECT d.hoster_id, other.customer_id, 'payment_method', concat_ws(' ', other.brand, other.last4)
    FROM direct d JOIN payment_method own ON own.customer_id = d.customer_id
    JOIN payment_method other ON other.identity = own.identity AND other.customer_id <> own.customer_id
$$;
