-- What open console pages watch: a number for each customer and topic that grows with every change of the topic.
-- src/live reads it each second for the customers that are watched.
CREATE TABLE customer_change (
  customer_id   uuid NOT NULL,
  topic         text NOT NULL CHECK (topic IN ('keys', 'alerts', 'people', 'payments', 'budgets')),
  version       bigint NOT NULL DEFAULT 1,
  PRIMARY KEY (customer_id, topic)
) WITH (fillfactor = 50);

CREATE FUNCTION add_customer_change(p_customer uuid, p_topic text) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO customer_change AS c (customer_id, topic) VALUES (p_customer, p_topic)
    ON CONFLICT (customer_id, topic) DO UPDATE SET version = c.version + 1
$$;

-- For tables with a column customer_id. The argument is the topic.
CREATE FUNCTION note_customer_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM add_customer_change(CASE TG_OP WHEN 'DELETE' THEN OLD.customer_id ELSE NEW.customer_id END, TG_ARGV[0]);
  RETURN NULL;
END $$;

-- An alert has the customer of its rule. A rule that is deleted takes its alerts along.
CREATE FUNCTION note_alert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM add_customer_change(r.customer_id, 'alerts') FROM alert_rule r WHERE r.rule_id = NEW.rule_id;
  RETURN NULL;
END $$;

CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION note_customer_change('keys');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON alert_rule FOR EACH ROW EXECUTE FUNCTION note_customer_change('alerts');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE ON alert FOR EACH ROW EXECUTE FUNCTION note_alert();
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON membership FOR EACH ROW EXECUTE FUNCTION note_customer_change('people');

-- Usage by key of the last days. The primary key has the days of each key apart, and usage_key_day_day those of all customers
-- together.
CREATE INDEX usage_key_day_customer ON usage_key_day (customer_id, day);
