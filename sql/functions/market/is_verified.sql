-- Whether a hoster has proven to control its domain and has a payout account that can be paid.
CREATE OR REPLACE FUNCTION is_verified(p_hoster uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM hoster_endpoint WHERE hoster_id = p_hoster AND challenge_passed_at IS NOT NULL)
    AND EXISTS (SELECT FROM hoster_account WHERE hoster_id = p_hoster AND state = 'ready')
$$;
