-- A change of where the money of a hoster goes waits, so that the owners of the hoster can stop it.

-- The bank accounts behind the account, as far as known. Older rows count all that the hoster ever named.
ALTER TABLE hoster_account ADD COLUMN identities text[] NOT NULL DEFAULT '{}';
UPDATE hoster_account a SET identities = ARRAY(SELECT identity FROM payout_identity i WHERE i.hoster_id = a.hoster_id) WHERE driver IS NOT NULL;

CREATE TABLE payout_change (
  change_id     uuid PRIMARY KEY,
  hoster_id     uuid NOT NULL REFERENCES hoster,
  -- `account`: where the hoster is paid. `customer`: the customer whose balance can be given earnings.
  kind          text NOT NULL CHECK (kind IN ('account', 'customer')),
  -- As in hoster_account, which has them once the change is applied.
  customer_id   uuid REFERENCES customer,
  driver        text CHECK (driver IN ('csv', 'stripe')),
  state         text CHECK (state IN ('pending', 'ready', 'refused')),
  destination   text,
  holder        text,
  note          text,
  identities    text[] NOT NULL,
  -- NULL: the command line, or the provider of the account.
  requested_by  uuid,
  requested_at  timestamptz NOT NULL,
  -- An account is applied then if it is ready.
  effective_at  timestamptz NOT NULL,
  -- NULL: the change waits. `replaced`: by a later one, or by the account that the hoster has.
  outcome       text CHECK (outcome IN ('applied', 'stopped', 'replaced')),
  ended_at      timestamptz,
  ended_by      uuid,
  -- The owners that the mail was sent to.
  mailed_to     uuid[] NOT NULL DEFAULT '{}',
  CHECK ((kind = 'customer') = (customer_id IS NOT NULL)),
  CHECK ((kind = 'account') = (driver IS NOT NULL AND state IS NOT NULL AND destination IS NOT NULL)),
  CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
CREATE UNIQUE INDEX payout_change_waiting ON payout_change (hoster_id, kind) WHERE outcome IS NULL;
CREATE INDEX payout_change_destination ON payout_change (hoster_id, destination, requested_at);
CREATE INDEX payout_change_requested ON payout_change (requested_at);
