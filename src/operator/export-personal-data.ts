import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { noteAction } from '../base/db/audit-log.ts'
import { type Pool, transaction } from '../base/db/pool.ts'
import type { Acting } from '../base/domain/acting.ts'
import { HOUR_MS, MINUTE_MS } from '../base/domain/durations.ts'
import { type PersonalPlace, personalData, placesOfCustomer, placesOfPerson } from './personal-data.ts'

/** A JSON document that is read from the database while it is sent. It ends with an error when it cannot be completed. */
export interface PersonalExport {
  readonly fileName: string
  readonly json: Readable
}

/** How long the reader may take nothing, and the whole export may take: it holds a connection and old versions of rows. */
const STALLED_MS = MINUTE_MS
const EXPORT_MS = HOUR_MS

/** Exports all that is kept of a person, and notes that in the audit log before anything is read. */
export async function exportPerson(
  pool: Pool,
  acting: Acting,
  { personId, email }: { readonly personId: string; readonly email: string },
): Promise<PersonalExport> {
  await noteAction(pool, { ...actingOf(acting), action: 'person.exported', subject: email })
  const about = { person_id: personId, email, made_at: new Date().toISOString() }
  return {
    fileName: `switchyard-person-${personId}.json`,
    json: await readAll(pool, about, placesOfPerson, personId),
  }
}

/** As `exportPerson`, of a customer. */
export async function exportCustomer(
  pool: Pool,
  acting: Acting,
  { customerId, email }: { readonly customerId: string; readonly email: string },
): Promise<PersonalExport> {
  await noteAction(pool, { ...actingOf(acting), action: 'customer.exported', subject: customerId, customerId })
  const about = { customer_id: customerId, email, made_at: new Date().toISOString() }
  return {
    fileName: `switchyard-customer-${customerId}.json`,
    json: await readAll(pool, about, placesOfCustomer, customerId),
  }
}

function actingOf({ personId, keyId, address }: Acting): Acting {
  return { personId, keyId, address }
}

/** Reads all tables as of one moment, as fast as the reader takes them. Resolves with the first rows, so an outage is an error and no broken document. */
async function readAll(
  pool: Pool,
  about: Readonly<Record<string, string>>,
  places: readonly PersonalPlace[],
  id: string,
): Promise<Readable> {
  const json = new PassThrough()
  const stalled = new AbortController()
  const timer = setTimeout(() => stalled.abort(new Error('nobody reads the export')), STALLED_MS)
  const signal = AbortSignal.any([stalled.signal, AbortSignal.timeout(EXPORT_MS)])
  void transaction(pool, async sql => {
    await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY')
    // The limit of the pool is for transactions that hold locks.
    await sql.query("SELECT set_config('idle_in_transaction_session_timeout', $1, true)", [String(2 * STALLED_MS)])
    await pipeline(withProgress(personalData(sql, about, places, id), timer), json, { signal })
  })
    .catch(error => json.destroy(error))
    .finally(() => clearTimeout(timer))
  await once(json, 'readable')
  return json
}

async function* withProgress(text: AsyncIterable<string>, timer: NodeJS.Timeout): AsyncGenerator<string> {
  for await (const piece of text) {
    timer.refresh()
    yield piece
  }
}
