-- A proxy that sets no header looks like a browser on this machine. So an operator without a second factor has rights only in a session
-- that a link of the host opened.

ALTER TABLE person_session
  -- Whether a link that the command line or a start printed opened the session.
  ADD COLUMN is_from_host boolean NOT NULL DEFAULT false;
