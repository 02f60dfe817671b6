-- The overview of operators asks each minute whether a provider sent an event lately.
CREATE INDEX payment_event_received ON payment_event (driver, received_at);
