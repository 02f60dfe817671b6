import type { FastifyBaseLogger } from 'fastify'
import type { Config } from './config/config.ts'
import { writeRunningServer } from './running-server.ts'

/**
 * Tells commands on this data directory where the server listens. Returns a function that takes the address back.
 * A start does not fail because of it: commands then assume the configured port.
 */
export function announceAddress({ dataDir, server }: Config, port: number, log: FastifyBaseLogger): () => void {
  try {
    return writeRunningServer(dataDir, { host: server.host, port })
  } catch (error) {
    log.warn({ err: error }, 'the address of this server could not be written for commands')
    return () => {}
  }
}
