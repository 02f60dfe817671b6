-- Customers move between cells: docs/cells.md. A move has one row in each of both cells.
CREATE TABLE cell_move (
  move_id       uuid PRIMARY KEY,
  customer_id   uuid NOT NULL,
  direction     text NOT NULL CHECK (direction IN ('out', 'in')),
  -- The other cell.
  cell          text NOT NULL,
  -- out: 'stopped' admits nothing, 'sent' has taken the balance, 'done', 'undone'. in: 'received', or 'refused' for good because
  -- the other cell has undone it.
  state         text NOT NULL CHECK (state IN ('stopped', 'sent', 'done', 'undone', 'received', 'refused')),
  amount_nanos  bigint NOT NULL DEFAULT 0 CHECK (amount_nanos >= 0),
  at            timestamptz NOT NULL DEFAULT now(),
  CHECK ((direction = 'in') = (state IN ('received', 'refused')))
);
CREATE UNIQUE INDEX cell_move_open ON cell_move (customer_id) WHERE state IN ('stopped', 'sent');
CREATE INDEX cell_move_customer ON cell_move (customer_id);

-- What a move that is 'sent' copies, hashes of passwords included. Deleted when the move ends.
CREATE TABLE cell_parcel (
  move_id       uuid PRIMARY KEY REFERENCES cell_move,
  parcel        jsonb NOT NULL
);

-- What a member spent in another cell counts in the windows here, and no usage row proves it: as in key_spend.
ALTER TABLE member_spend ADD COLUMN before_nanos bigint NOT NULL DEFAULT 0 CHECK (before_nanos >= 0);

-- `cell_clearing` and, for promotion credit, `cell_promo` hold what a customer took to other cells; over all cells, each is zero.
-- NOT VALID: the old rows satisfied stricter checks, and reading them all would take minutes.
ALTER TABLE ledger_entry DROP CONSTRAINT ledger_entry_account_kind_check;
ALTER TABLE ledger_entry ADD CONSTRAINT ledger_entry_account_kind_check CHECK (account_kind IN ('customer', 'hoster_payable',
  'platform_revenue', 'platform_promo', 'cash', 'customer_debt', 'processor_fee', 'payout_clearing', 'hoster_clawback',
  'cell_clearing', 'cell_promo')) NOT VALID;
ALTER TABLE ledger_tx DROP CONSTRAINT ledger_tx_kind_check;
ALTER TABLE ledger_tx ADD CONSTRAINT ledger_tx_kind_check CHECK (kind IN ('signup_credit', 'credit', 'settle', 'refund',
  'payment', 'voucher', 'reversal', 'reversal_returned', 'debt_payment', 'processor_fee',
  'payout', 'payout_paid', 'payout_returned', 'earnings_moved', 'clawback', 'clawback_returned', 'opening_balance',
  'promotion_excess', 'cell_move')) NOT VALID;
