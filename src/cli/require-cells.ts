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
  return peers.map(({ name, databaseUrl }) => {
    if (databaseUrl === null) throw new Failure(`cells.peers has no database_url for ${name}. Add it.`)
    return { name, databaseUrl }
  })
}
