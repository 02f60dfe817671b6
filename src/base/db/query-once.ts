import pg from 'pg'
import { queryRow } from './query-row.ts'

/** Runs one statement on a connection of its own and returns its first row. Rejects with pg's error. */
export async function queryOnce<Row extends object>(connection: pg.ClientConfig, text: string): Promise<Row> {
  const client = new pg.Client({ ...connection, connectionTimeoutMillis: 10_000, application_name: 'switchyard open' })
  client.on('error', () => {})
  try {
    await client.connect()
    return await queryRow<Row>(client, text)
  } finally {
    await client.end().catch(() => {})
  }
}
