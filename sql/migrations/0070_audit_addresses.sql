-- Lets the address leave an entry of the audit log without breaking its hashes: the hash of an entry covers a proof of the address, an
-- SHA-256 with a salt. Without address and salt, nobody can find the address by trying all. Older entries have neither, and keep theirs.
ALTER TABLE audit_entry ADD COLUMN address_salt bytea, ADD COLUMN address_proof bytea;
