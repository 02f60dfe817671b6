import type { Sql } from '../base/db/pool.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { hasValidChecksum, hintOf } from '../identity/auth/api-key.ts'
import { findKeys, type KeyListing } from '../identity/auth/keys.ts'
import { Failure } from './failure.ts'

/** Returns the key with this id or hint, or the listing of the key itself. Throws Failure. */
export async function resolveKey(sql: Sql, text: string): Promise<KeyListing> {
  const [found, ...others] = await findKeys(sql, text)
  // Never repeat a whole key: the message may end up in a log.
  const shown = hasValidChecksum(text) ? hintOf(text) : text
  if (!found) throw new Failure(`There is no key ${shown}. List keys with: ${ownCommand('key list')}`)
  if (others.length > 0) throw new Failure(`More than one key matches ${shown}. Use the id of the key.`)
  return found
}
