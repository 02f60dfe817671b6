import pg from 'pg'

/** Runs one statement on a connection of its own and returns its first row. Rejects with pg's error. */
export async function queryOnce<Row extends object>(connection: pg.ClientConfig, text: string): Promise<Row> {
  const client = new pg.Client({ ...connection, connectionTimeoutMillis: 10_000, application_name: 'switchyard open' })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query<Row>(text)).rows[0]!
  } finally {
    await client.end().catch(() => {})
  }
}
