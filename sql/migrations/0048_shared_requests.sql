-- One customer with long shared requests used up the credit of the house for the comparisons of all. Now each has a share of the day. And a hoster
-- got requests again that another node had sent to it: conversations are remembered for all nodes.

-- What the house has spent on requests that a customer shares, or has reserved for those that run. Kept for a day after their UTC day.
CREATE TABLE shared_request_spend (
  day           date NOT NULL,
  -- shadow: answers to the customer were compared. replay: its requests were sent once more.
  purpose       text NOT NULL CHECK (purpose IN ('shadow', 'replay')),
  customer_id   uuid NOT NULL REFERENCES customer,
  spent_nanos   bigint NOT NULL CHECK (spent_nanos >= 0),
  PRIMARY KEY (day, purpose, customer_id)
);

-- The hosters that were sent the beginning of a conversation of a customer that shares its requests. Kept for a day.
CREATE TABLE seen_conversation (
  -- A keyed hash of the customer and the messages up to the first one of the user. Without the key nobody can test a text.
  conversation  text NOT NULL,
  hoster_id     uuid NOT NULL,
  seen_at       timestamptz NOT NULL,
  PRIMARY KEY (conversation, hoster_id)
);
CREATE INDEX seen_conversation_at ON seen_conversation (seen_at);
