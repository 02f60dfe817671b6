import { join } from 'node:path'
import type { Sql } from '../db/pool.ts'
import { findMasterKey, loadMasterKey } from '../secrets/master-key.ts'
import { markOf, noteMasterKey, readMark } from '../secrets/master-key-mark.ts'
import { Failure } from './failure.ts'
import type { Session } from './verb.ts'

/**
 * The key that seals the credentials of hosters: that of the servers of this database, or made in the data directory if none was used yet.
 * Throws Failure where it is not to be found, since what another one seals no server can open.
 */
export async function masterKeyOf({ config }: Session, sql: Sql): Promise<Buffer> {
  const mark = await readMark(sql)
  if (mark === undefined) {
    const key = loadMasterKey(config)
    await noteMasterKey(sql, key)
    return key
  }
  const key = findMasterKey(config)
  if (key && markOf(key) === mark) return key
  throw new Failure(whyNotThatOfServers(config, key !== undefined))
}

/** A sentence for the operator about a master key that is missing, or is not the one that the server last started with. */
export function whyNotThatOfServers({ masterKey, dataDir }: Session['config'], found: boolean): string {
  const path = join(dataDir, 'master.key')
  const what = !found
    ? `${path} is missing`
    : `${masterKey === null ? path : 'SWITCHYARD_MASTER_KEY'} is not the master key that the server last started with`
  return `${what}. Set SWITCHYARD_DATA or SWITCHYARD_MASTER_KEY as the server has it, or restore the key; for a new one start the server with it first.`
}
