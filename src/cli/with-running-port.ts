import type { Config } from '../start/config/config.ts'
import { findRunningServer } from '../start/running-server.ts'

/**
 * Returns the configuration with the port of the server that runs on this data directory, which may have got another
 * one at its start.
 */
export function withRunningPort(config: Config): Config {
  const running = findRunningServer(config.dataDir)
  return running === undefined ? config : { ...config, server: { ...config.server, port: running.port } }
}
