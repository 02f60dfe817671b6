import { descriptorLimit } from '../../base/runtime/process-limits.ts'
import type { Config } from '../config/config.ts'

/** Files, PostgreSQL and the process itself. */
const OTHER_DESCRIPTORS = 256
const CONNECTIONS_MAX = 16_384

/**
 * Returns how many connections of clients and agents the node keeps. Default: half of the descriptors, because a
 * running request has a connection to its client and one to a server.
 */
export function connectionsMax({ server }: Pick<Config, 'server'>): number {
  const half = Math.floor((descriptorLimit() - OTHER_DESCRIPTORS) / 2)
  return server.maxConnections ?? Math.max(64, Math.min(half, CONNECTIONS_MAX))
}
