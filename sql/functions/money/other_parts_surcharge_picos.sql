-- What the `other_parts` of a usage row, such as images, cost beyond its input and output price, in picodollars. Negative when
-- they are cheaper. Except for 'request', the price of a request, their tokens are among those of the row. For the audit.
CREATE OR REPLACE FUNCTION other_parts_surcharge_picos(p_parts json, p_input_price bigint, p_output_price bigint) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT coalesce(sum(p.tokens::numeric * (p.pico_per_token - CASE
    WHEN p.kind = 'request' THEN 0
    WHEN p.kind IN ('output_audio', 'output_image') THEN p_output_price
    ELSE p_input_price END)), 0)
  FROM json_to_recordset(p_parts) AS p(kind text, tokens bigint, pico_per_token bigint)
$$;
