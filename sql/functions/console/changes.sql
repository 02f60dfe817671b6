-- Notes a change of a row with a column customer_id. The argument of the trigger is the topic.
CREATE OR REPLACE FUNCTION note_customer_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM add_customer_change(CASE TG_OP WHEN 'DELETE' THEN OLD.customer_id ELSE NEW.customer_id END, TG_ARGV[0]);
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION note_customer_change('keys');
CREATE OR REPLACE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON alert_rule FOR EACH ROW EXECUTE FUNCTION note_customer_change('alerts');
CREATE OR REPLACE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON membership FOR EACH ROW EXECUTE FUNCTION note_customer_change('people');
CREATE OR REPLACE TRIGGER note_change AFTER INSERT ON payment FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');
CREATE OR REPLACE TRIGGER note_state AFTER UPDATE ON payment FOR EACH ROW
  WHEN ((OLD.state, OLD.redirect_url, OLD.receipt_url, OLD.invoice_url, OLD.failure, OLD.mismatch)
    IS DISTINCT FROM (NEW.state, NEW.redirect_url, NEW.receipt_url, NEW.invoice_url, NEW.failure, NEW.mismatch))
  EXECUTE FUNCTION note_customer_change('payments');
CREATE OR REPLACE TRIGGER note_change AFTER INSERT OR UPDATE ON payment_reversal FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');
CREATE OR REPLACE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON payment_method FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');
CREATE OR REPLACE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON auto_top_up FOR EACH ROW EXECUTE FUNCTION note_customer_change('payments');
CREATE OR REPLACE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON member_limit FOR EACH ROW EXECUTE FUNCTION note_customer_change('budgets');
CREATE OR REPLACE TRIGGER note_limit AFTER UPDATE ON api_key FOR EACH ROW
  WHEN ((OLD.spend_limit_nanos, OLD.limit_reset) IS DISTINCT FROM (NEW.spend_limit_nanos, NEW.limit_reset))
  EXECUTE FUNCTION note_customer_change('budgets');

-- Notes a change of an alert, for the customer of its rule. A rule that is deleted takes its alerts along.
CREATE OR REPLACE FUNCTION note_alert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM add_customer_change(r.customer_id, 'alerts') FROM alert_rule r WHERE r.rule_id = NEW.rule_id;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER note_change AFTER INSERT OR UPDATE ON alert FOR EACH ROW EXECUTE FUNCTION note_alert();

-- Raises the version of a topic of a customer, by which live pages see what changed. Locks that row: writers wait for each other.
CREATE OR REPLACE FUNCTION add_customer_change(p_customer uuid, p_topic text) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO customer_change AS c (customer_id, topic) VALUES (p_customer, p_topic)
    ON CONFLICT (customer_id, topic) DO UPDATE SET version = c.version + 1
$$;
