-- The routing fields that apply to every request with the key, under their names in a request body; NULL for none.
ALTER TABLE api_key ADD COLUMN routing_defaults jsonb CHECK (jsonb_typeof(routing_defaults) = 'object');
