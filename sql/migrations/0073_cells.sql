-- Cells: installations with a PostgreSQL each that serve each other's customers (docs/scaling.md). `installation` names the own cell
-- as 'cell'; without it, no table here has a row.

-- Where keys are served. Only the cell of a row writes it, and logical replication brings it to all others, so two cells never
-- write the same row. The name of the cell is in the key, so that a publication may filter by it.
CREATE TABLE cell_key (
  key_hash      bytea NOT NULL CHECK (length(key_hash) = 32),
  cell          text NOT NULL,
  -- The customer is on its way to another cell: this one refuses the key for some seconds.
  is_moving     boolean NOT NULL DEFAULT false,
  -- The cell that the customer has moved to. The row stays: cells that miss the new one are led there.
  moved_to      text,
  PRIMARY KEY (key_hash, cell)
);
