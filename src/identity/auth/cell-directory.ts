import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { hashApiKey, hasValidChecksum } from './api-key.ts'
import { credentialOf } from './authenticator.ts'
import { KeyCache } from './key-cache.ts'
import { createKeyLookUp, type KeyStatement } from './look-up-keys.ts'

/** Where the key of a request is served: in this cell, in the named one, or nowhere while its customer moves. */
export type CellOfKey = { readonly kind: 'here' | 'moving' } | { readonly kind: 'elsewhere'; readonly cell: string }

export interface CellDirectory {
  /**
   * Returns the cell of a request: at once when its key is cached. `here` also for keys that no cell knows, for requests
   * without one and while PostgreSQL cannot be reached: the authenticator refuses those.
   *
   * @param rawHeaders names and values in turn, as Node's `request.rawHeaders`
   */
  find(rawHeaders: readonly string[]): CellOfKey | Promise<CellOfKey>
  /** Stops listening for changes. */
  close(): void
}

export interface CellDirectoryDeps {
  readonly sql: Sql
  readonly clock: Clock
  /** The name of this cell. */
  readonly name: string
  /** Calls back whenever keys may have changed here. Returns a function that unsubscribes. */
  readonly onAccessChange: (listener: () => void) => () => void
}

const here: CellOfKey = { kind: 'here' }

/**
 * Finds cells by the hashes of keys, mostly in memory. What other cells change is noticed within a minute; until then the
 * former cell of a customer passes its requests on.
 */
export function createCellDirectory({ sql, clock, name, onAccessChange }: CellDirectoryDeps): CellDirectory {
  const lookUpCell = createKeyLookUp(sql, cellsOfKeys)
  const cache = new KeyCache<CellOfKey>({
    clock,
    onAccessChange,
    refusal: 'invalid_api_key',
    async lookUp(keyHash) {
      const row = await lookUpCell(keyHash)
      return row && { holder: cellOf(row, name), expiresAt: null }
    },
  })
  return {
    find(rawHeaders) {
      try {
        const key = credentialOf(rawHeaders)
        const found = cache.find(hashApiKey(key), () => hasValidChecksum(key))
        return found instanceof Promise ? found.catch(hereIfRefused) : found
      } catch (thrown) {
        return hereIfRefused(thrown)
      }
    },
    close: () => cache.close(),
  }
}

function cellOf({ cell, is_moving }: CellRow, ownName: string): CellOfKey {
  if (is_moving) return { kind: 'moving' }
  return cell === ownName ? here : { kind: 'elsewhere', cell }
}

function hereIfRefused(thrown: unknown): CellOfKey {
  if (thrown instanceof ApiError) return here
  throw thrown
}

interface CellRow {
  /** SHA-256, base64. */
  readonly key_hash: string
  readonly cell: string
  readonly is_moving: boolean
}

/**
 * The own row decides: it is never late. Of the rows of other cells, one that serves the key comes before one whose customer
 * has left; both exist while a move is replicated.
 */
const cellsOfKeys: KeyStatement<CellRow> = {
  name: 'auth_look_up_cells',
  text: `
    SELECT DISTINCT ON (c.key_hash) encode(c.key_hash, 'base64') AS key_hash, coalesce(c.moved_to, c.cell) AS cell,
           c.is_moving AND c.cell = own_cell() AS is_moving
      FROM cell_key c WHERE c.key_hash = ANY ($1)
     ORDER BY c.key_hash, c.cell = own_cell() DESC, c.moved_to IS NOT NULL`,
}
