-- Prices of tokens by kind: what prompt caches read and wrote, media, and a price for each request. Every new column is
-- NULL for requests without such tokens, so that their rows do not grow.

-- ---------------------------------------------------------------- prices of hosters

ALTER TABLE hoster_price
  -- NULL: cached tokens cost the input price. Never above it, because cached tokens that a hoster reports only lower a
  -- bill.
  ADD COLUMN cache_read_pico_per_token bigint CHECK (cache_read_pico_per_token BETWEEN 0 AND input_pico_per_token),
  ADD COLUMN cache_write_pico_per_token bigint CHECK (cache_write_pico_per_token BETWEEN 0 AND input_pico_per_token);

-- ---------------------------------------------------------------- usage rows

-- The view is made again with the new columns.
DROP VIEW IF EXISTS usage_row;

-- `input_pico_per_token` and `output_pico_per_token` are the prices of the tokens that these columns do not name. Without
-- CHECKs, which would read every row of the table.
ALTER TABLE usage_event
  ADD COLUMN cache_read_pico_per_token bigint,
  ADD COLUMN cache_write_pico_per_token bigint,
  -- Inside input_tokens.
  ADD COLUMN cache_read_tokens integer,
  ADD COLUMN cache_write_tokens integer,
  -- Inside output_tokens, at their price.
  ADD COLUMN reasoning_tokens integer,
  -- Rarer parts, as a list of {"kind", "tokens", "pico_per_token"}. Kinds: cache_write_long, input_audio and input_image
  -- (inside input_tokens), output_audio and output_image (inside output_tokens), and request, the price of a request.
  ADD COLUMN other_parts json;

ALTER TABLE usage_frozen
  ADD COLUMN cache_read_pico_per_token bigint,
  ADD COLUMN cache_write_pico_per_token bigint,
  ADD COLUMN cache_read_tokens integer,
  ADD COLUMN cache_write_tokens integer,
  ADD COLUMN reasoning_tokens integer,
  ADD COLUMN other_parts json;

-- ---------------------------------------------------------------- sums

-- The tokens that caches read, for reports. They are inside input_tokens.
ALTER TABLE usage_day ADD COLUMN cached_tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE usage_closing ADD COLUMN cached_tokens bigint NOT NULL DEFAULT 0;

ALTER TYPE settlement_asked
  ADD ATTRIBUTE cache_read_tokens integer,
  ADD ATTRIBUTE cache_read_price bigint,
  ADD ATTRIBUTE cache_write_tokens integer,
  ADD ATTRIBUTE cache_write_price bigint,
  ADD ATTRIBUTE reasoning_tokens integer,
  ADD ATTRIBUTE other_parts json;
ALTER TYPE settled_request ADD ATTRIBUTE cached_tokens integer;
ALTER TYPE settled_sum ADD ATTRIBUTE cached_tokens bigint;
