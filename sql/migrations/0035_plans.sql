-- is_archived looks for the month of a request. One row per month, so the lock is short.
CREATE INDEX usage_archive_ids ON usage_archive (from_id, to_id);
