import { open, unlink } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type AuditAction, noteAction } from '../base/db/audit-log.ts'
import { type Pool, transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { type PersonalPlace, personalData } from '../operator/personal-data.ts'
import { Failure } from './failure.ts'

/**
 * Writes all that is kept of a person or a customer to a new file that only its owner can read, and notes that in the audit log.
 * Returns the path. Throws Failure if there is such a file.
 */
export async function writePersonalData(
  pool: Pool,
  file: string,
  order: {
    readonly about: Readonly<Record<string, string | null>>
    readonly places: readonly PersonalPlace[]
    readonly id: string
    readonly entry: { readonly action: AuditAction; readonly subject: string; readonly customerId?: string }
  },
): Promise<string> {
  const path = resolve(file)
  const handle = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    throw new Failure(error.code === 'EEXIST' ? `${path} exists already.` : `Cannot write ${path} (${error.code}).`)
  })
  try {
    await transaction(pool, async sql => {
      // All tables as of one moment.
      await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY')
      const text = personalData(sql, order.about, order.places, order.id)
      await pipeline(Readable.from(text), handle.createWriteStream())
    })
    await transaction(pool, sql => noteAction(sql, { ...commandLine, ...order.entry }))
  } catch (error) {
    // Half a file looks like a whole one.
    await unlink(path)
    throw error
  }
  return path
}
