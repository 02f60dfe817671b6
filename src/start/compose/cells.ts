import { CellRelay } from '../../http/cells/cell-relay.ts'
import { createCellDirectory } from '../../identity/auth/cell-directory.ts'
import type { Callers } from './callers.ts'
import { clientAddress } from './client-trace.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Service } from './service.ts'

/** Creates what passes requests with keys of other cells on. Undefined: the installation is not one of several. */
export function createCells(
  { config, clock, log, started }: ComposeContext,
  { lookups }: Database,
  { changes }: Callers,
  { allowedHosts, inFlight, metrics }: Service,
): CellRelay | undefined {
  if (config.cells === null) return undefined
  const { name, secret, peers } = config.cells
  const directory = createCellDirectory({
    sql: lookups,
    clock,
    name,
    onAccessChange: listener => changes.onChange('access', listener),
  })
  started.defer(() => directory.close())
  return new CellRelay({
    directory,
    peers: new Map(peers.map(peer => [peer.name, new URL(peer.url)])),
    secret,
    allowedHosts,
    inFlight,
    addressOf: request => clientAddress(config, request),
    onResponse: metrics.request,
    log,
  })
}
