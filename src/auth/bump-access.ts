import type { Sql } from '../db/pool.ts'

/** Tells every node that keys or customers changed. Belongs in the transaction of the change, last, since it takes a shared row. */
export async function bumpAccess(sql: Sql): Promise<void> {
  await sql.query("UPDATE control_version SET version = version + 1 WHERE topic = 'access'")
}
