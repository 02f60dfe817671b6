import type { Sql } from '../../src/base/db/pool.ts'

/** The tables, indexes and triggers of the database as SQL, by name: what `sql/schema.sql` has. Without partitions. */
export async function tablesAsSql(sql: Sql): Promise<string> {
  const { rows } = await sql.query<{ text: string }>(TABLES)
  return rows.map(({ text }) => `${text}\n`).join('\n')
}

/** Everything that migrations make: `tablesAsSql`, and the functions and views with their rights. */
export async function describeSchema(sql: Sql): Promise<string> {
  const { rows } = await sql.query<{ text: string }>(FUNCTIONS)
  return [await tablesAsSql(sql), ...rows.map(({ text }) => text)].join('\n')
}

const TABLES = `
WITH tables AS (
  SELECT oid, relname, relkind, relpersistence, reloptions FROM pg_class
   WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'c') AND NOT relispartition
),
lines AS (
  SELECT attrelid AS oid, 1 AS place, attnum::int AS n, format('%I %s%s%s', attname, format_type(atttypid, atttypmod),
      CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END,
      CASE WHEN attidentity = 'a' THEN ' GENERATED ALWAYS AS IDENTITY'
        WHEN attgenerated = 's' THEN format(' GENERATED ALWAYS AS (%s) STORED', pg_get_expr(adbin, adrelid)) ELSE coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), '') END) AS line
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
   WHERE attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT conrelid, 2, row_number() OVER (PARTITION BY conrelid ORDER BY contype = 'c', contype = 'f', conname)::int,
      format('CONSTRAINT %I %s', conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE contype IN ('p', 'u', 'c', 'f')
),
bodies AS (
  SELECT oid, string_agg('  ' || line, E',\\n' ORDER BY place, n) AS body FROM lines GROUP BY oid
),
others AS (
  SELECT indrelid AS oid, 1 AS place, i.relname AS name, pg_get_indexdef(indexrelid) AS line
    FROM pg_index JOIN pg_class i ON i.oid = indexrelid WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND conrelid = indrelid)
  UNION ALL
  SELECT tgrelid, 2, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
)
SELECT CASE WHEN relkind = 'c' THEN format(E'CREATE TYPE %I AS (\\n%s\\n);', relname, body) ELSE
    format(E'CREATE %sTABLE %I (\\n%s\\n)%s%s;', CASE relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, relname, body,
      CASE relkind WHEN 'p' THEN ' PARTITION BY ' || pg_get_partkeydef(t.oid) ELSE '' END,
      CASE WHEN reloptions IS NULL THEN '' ELSE ' WITH (' || array_to_string(ARRAY(SELECT unnest(reloptions) ORDER BY 1), ', ') || ')' END)
    || coalesce((SELECT string_agg(E'\\n' || replace(line, current_schema() || '.', '') || ';', '' ORDER BY place, name) FROM others o WHERE o.oid = t.oid), '')
  END AS text
FROM tables t JOIN bodies USING (oid) ORDER BY relkind = 'c', relname COLLATE "C"`

const FUNCTIONS = `
SELECT pg_get_functiondef(oid) || E'\\n' || ARRAY(SELECT unnest(coalesce(proacl, acldefault('f', proowner)))::text ORDER BY 1)::text AS text
  FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL
SELECT relname || ' ' || CASE relkind WHEN 'v' THEN pg_get_viewdef(oid) ELSE '' END || coalesce(ARRAY(SELECT unnest(relacl)::text ORDER BY 1)::text, '')
  FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('v', 'r', 'p')
ORDER BY 1`
