-- Names the own cell, and notes that it serves the keys of all its customers. Returns whether the name is new. Locks the table of
-- keys: those that are made or revoked meanwhile wait, so that none is missed. Raises raise_exception when the cell has another
-- name: other cells know its keys by it.
CREATE OR REPLACE FUNCTION start_cell(p_cell text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE api_key IN SHARE ROW EXCLUSIVE MODE;
  INSERT INTO installation (name, value) VALUES ('cell', p_cell) ON CONFLICT (name) DO NOTHING;
  IF NOT FOUND THEN
    IF own_cell() <> p_cell THEN
      RAISE EXCEPTION 'this database is the cell %, not %', own_cell(), p_cell;
    END IF;
    RETURN false;
  END IF;
  INSERT INTO cell_key (key_hash, cell) SELECT hash, p_cell FROM api_key k, unnest(hashes_of_key(k)) AS hash;
  RETURN true;
END $$;

-- Notes a change of a key for the other cells.
CREATE OR REPLACE FUNCTION note_cell_key() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  v_cell text := own_cell();
  v_before bytea[] := CASE WHEN TG_OP = 'INSERT' THEN '{}' ELSE hashes_of_key(OLD) END;
  v_after bytea[] := CASE WHEN TG_OP = 'DELETE' THEN '{}' ELSE hashes_of_key(NEW) END;
BEGIN
  IF v_cell IS NULL OR v_before = v_after THEN RETURN NULL; END IF;
  DELETE FROM cell_key WHERE cell = v_cell AND key_hash = ANY (v_before) AND key_hash <> ALL (v_after);
  INSERT INTO cell_key (key_hash, cell) SELECT hash, v_cell FROM unnest(v_after) AS hash WHERE hash <> ALL (v_before)
    ON CONFLICT (key_hash, cell) DO UPDATE SET is_moving = false, moved_to = NULL;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER note_cell_key AFTER INSERT OR UPDATE OR DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION note_cell_key();

-- The name of the own cell; NULL: the installation is not one of several.
CREATE OR REPLACE FUNCTION own_cell() RETURNS text
LANGUAGE sql STABLE AS $$ SELECT value FROM installation WHERE name = 'cell' $$;

-- The hashes with which clients use a key: also the former one of a replaced key.
CREATE OR REPLACE FUNCTION hashes_of_key(p_key api_key) RETURNS bytea[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_key.revoked_at IS NULL THEN array_remove(ARRAY[p_key.key_hash, p_key.former_key_hash], NULL) ELSE '{}' END
$$;
