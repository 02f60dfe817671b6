-- The budget of a key or of a member has another name now, and so has other_parts_surcharge_picos.
DROP FUNCTION IF EXISTS other_parts_picos(json, bigint, bigint);
-- CREATE OR REPLACE cannot give a parameter another name.
DROP FUNCTION IF EXISTS find_budget(key_budget[], uuid, uuid, date);

ALTER TYPE key_budget RENAME TO spend_budget;
ALTER TYPE spend_budget RENAME ATTRIBUTE key TO spender;
