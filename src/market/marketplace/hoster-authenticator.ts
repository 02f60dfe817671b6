import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type HosterCaller, type HosterScope, hasHosterScope } from '../../base/domain/hoster-access.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { hashApiKey, hasValidChecksum } from '../../identity/auth/api-key.ts'
import { credentialOf } from '../../identity/auth/authenticator.ts'
import { KeyCache } from '../../identity/auth/key-cache.ts'
import { createKeyLookUp, type KeyStatement } from '../../identity/auth/look-up-keys.ts'

/** Checks the keys of hosters, `hk-sy-...`. */
export interface HosterAuthenticator {
  /**
   * Returns the hoster of a request, at once when its key is cached. Throws or rejects with ApiError:
   * `invalid_hoster_key` also for the key of a customer, `insufficient_scope`, or `database_unavailable` when an
   * unknown key cannot be looked up. A revoked key is refused within two seconds.
   *
   * @param rawHeaders names and values in turn, as Node's `request.rawHeaders`
   */
  authenticate(rawHeaders: readonly string[], scope: HosterScope): Promise<HosterCaller>
  /** Stops listening for changes. */
  close(): void
}

interface HosterKeyRow {
  /** SHA-256, base64. */
  readonly key_hash: string
  readonly key_id: string
  readonly hoster_id: string
  readonly scopes: readonly HosterScope[]
  readonly expires_at: Date | null
}

/** Keys that are not revoked, of hosters that are not retired and people who are not blocked. */
const keysOfHosters: KeyStatement<HosterKeyRow> = {
  name: 'marketplace_look_up_keys',
  text: `
    SELECT encode(key_hash, 'base64') AS key_hash, key_id, hoster_id, k.scopes, expires_at
      FROM hoster_key k JOIN hoster USING (hoster_id) LEFT JOIN person p ON p.person_id = k.person_id
     WHERE key_hash = ANY ($1) AND revoked_at IS NULL AND state <> 'retired' AND p.disabled_at IS NULL`,
}

export function createHosterAuthenticator({
  sql,
  clock,
  onAccessChange,
}: {
  readonly sql: Sql
  readonly clock: Clock
  /** Calls back whenever keys or hosters may have changed. Returns a function that unsubscribes. */
  readonly onAccessChange: (listener: () => void) => () => void
}): HosterAuthenticator {
  const lookUpKey = createKeyLookUp(sql, keysOfHosters)
  const cache = new KeyCache<HosterCaller>({
    clock,
    onAccessChange,
    refusal: 'invalid_hoster_key',
    async lookUp(keyHash) {
      const row = await lookUpKey(keyHash)
      return row && { holder: callerOf(row), expiresAt: row.expires_at }
    },
  })
  return {
    async authenticate(rawHeaders, scope) {
      const key = keyOf(rawHeaders)
      const caller = await cache.find(hashApiKey(key), () => hasValidChecksum(key, 'hk-sy-'))
      if (hasHosterScope(caller.scopes, scope)) return caller
      throw new ApiError('insufficient_scope', {
        message: `This hoster key may not do this. Use one with the scope "${scope}".`,
      })
    },
    close: () => cache.close(),
  }
}

function keyOf(rawHeaders: readonly string[]): string {
  try {
    return credentialOf(rawHeaders)
  } catch {
    // It throws the error of customers' keys.
    throw new ApiError('invalid_hoster_key')
  }
}

function callerOf({ hoster_id, key_id, scopes }: HosterKeyRow): HosterCaller {
  return Object.freeze({ hosterId: hoster_id, keyId: key_id, personId: null, scopes })
}
