-- The operator's home counts the invitations to the installation that wait. Tokens grow with what people do.
CREATE INDEX person_token_invited_operators ON person_token (expires_at)
  WHERE purpose = 'invite' AND customer_id IS NULL AND hoster_id IS NULL;
