-- Invitations of operators and auditors, which name neither a customer nor a hoster. They give an account; the role comes from a change
-- of roles, with its checks.

ALTER TABLE person_token
  DROP CONSTRAINT person_token_invite_check,
  ADD CONSTRAINT person_token_invite_check CHECK (
    CASE WHEN purpose = 'invite'
      THEN role IS NOT NULL AND (customer_id IS NULL OR hoster_id IS NULL)
        AND (customer_id IS NULL AND hoster_id IS NULL) = (role IN ('operator', 'auditor'))
      ELSE customer_id IS NULL AND hoster_id IS NULL END);

ALTER TABLE person
  -- The role for which an operator has invited the person, who has come by that link; NULL: none, or the person has got a role since.
  -- A constant default rewrites no row.
  ADD COLUMN invited_role text CHECK (invited_role IN ('operator', 'auditor'));
