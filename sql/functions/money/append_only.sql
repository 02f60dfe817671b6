-- Keeps rows of the books from being changed or removed. Raises raise_exception.
CREATE OR REPLACE FUNCTION refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append only: add a new transaction that corrects the old one', TG_TABLE_NAME;
END $$;
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_tx FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON refund FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON usage_closing FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_taken FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON hoster_movement FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON provider_version FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

-- As refuse_rewrite, which raises raise_exception too. Lets the owner sign evidence again after a rotation of the master key: see
-- renew-evidence.ts. The roles of the gateway may not update the table, and the audit finds what no key has signed.
CREATE OR REPLACE FUNCTION refuse_evidence_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND current_setting('switchyard.renews_evidence', true) = 'on' THEN RETURN NULL; END IF;
  RAISE EXCEPTION '% is append only: add a new transaction that corrects the old one', TG_TABLE_NAME;
END $$;
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_evidence
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_evidence_rewrite();
