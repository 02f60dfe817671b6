/**
 * Runs a statement that always returns exactly one row: a call of a function, a sum over all rows, an INSERT of one
 * row, a SELECT of a row that cannot be missing. Throws when it returns none or several.
 */
export async function queryRow<Row>(
  sql: Queryable,
  statement: string | { readonly name: string; readonly text: string },
  values?: readonly unknown[],
): Promise<Row> {
  const { rows } = await sql.query<Row>(statement, values)
  const [row] = rows
  if (row === undefined || rows.length > 1) throw new Error(`The statement returned ${rows.length} rows, not one.`)
  return row
}

/** A pool, a transaction or a single connection. */
interface Queryable {
  query<Row>(
    statement: string | { readonly name: string; readonly text: string },
    values?: readonly unknown[],
  ): Promise<{ readonly rows: readonly Row[] }>
}
