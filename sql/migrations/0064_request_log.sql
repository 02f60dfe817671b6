-- The requests of all customers, the newest first, for operators. Each settlement writes to the last pages of the index. It begins
-- with the time, not the id: an index of ids would be tried for the newest requests of one customer too, and read those of all.
CREATE INDEX usage_event_newest ON usage_event (started_at, request_id);
