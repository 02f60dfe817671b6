import type { PeerDatabase } from '../operator/cells/link-cell.ts'
import type { CellSettings } from '../start/config/cell-settings.ts'
import type { Session } from './command.ts'
import { Failure } from './failure.ts'

export function requireCells({ config }: Session): CellSettings {
  if (config.cells === null) throw new Failure('This installation is not one of several cells: set cells.name.')
  return config.cells
}

/** The other cells. Throws Failure when this machine cannot reach the database of one. */
export function peersWithDatabase({ peers }: CellSettings): PeerDatabase[] {
  return peers.map(withDatabase)
}

/** Throws Failure like `peersWithDatabase`, and for a name that is not in the list. */
export function peerNamed({ peers }: CellSettings, name: string): PeerDatabase {
  const peer = peers.find(candidate => candidate.name === name)
  if (peer === undefined)
    throw new Failure(
      `cells.peers has no other cell ${name}; it has ${peers.map(each => each.name).join(', ') || 'none'}.`,
    )
  return withDatabase(peer)
}

function withDatabase({ name, databaseUrl }: CellSettings['peers'][number]): PeerDatabase {
  if (databaseUrl === null) throw new Failure(`cells.peers has no database_url for ${name}. Add it.`)
  return { name, databaseUrl }
}
