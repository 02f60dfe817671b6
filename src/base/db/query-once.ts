import pg from 'pg'
import { queryRow } from './query-row.ts'

/** Runs one statement on a connection of its own and returns its first row. Rejects with pg's error. */
export async function queryOnce<Row extends object>(connection: pg.ClientConfig, text: string): Promise<Row> {
  return await onOwnConnection(connection, client => queryRow<Row>(client, text))
}

/** Opens a connection for `work` and closes it. Rejects with pg's error, also if a statement takes ten seconds. */
export async function onOwnConnection<T>(
  connection: pg.ClientConfig,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({
    ...connection,
    connectionTimeoutMillis: 10_000,
    query_timeout: 10_000,
    application_name: 'switchyard open',
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}
