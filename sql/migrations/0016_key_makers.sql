-- The person that made a key in the console, for the spend of each member. NULL for keys of programs and of the command line.
ALTER TABLE api_key ADD COLUMN person_id uuid REFERENCES person;
-- Made for a page of the playground. Such a key ends by itself.
ALTER TABLE api_key ADD COLUMN is_playground boolean NOT NULL DEFAULT false;
CREATE INDEX api_key_playground ON api_key (customer_id, person_id) WHERE is_playground;
