import { join } from 'node:path'
import { writeConnectionFile } from './connection-file.ts'
import { embeddedCluster, newLogin } from './embedded-cluster.ts'
import { SOCKET_PORT } from './postgres-socket.ts'

/**
 * Turns the files of a base backup into a cluster in `dataDir`, which has none yet: PostgreSQL recovers it and writes
 * it to the disk, and its roles get new passwords. Throws an Error for the operator.
 */
export async function restoreCluster(dataDir: string, files: string): Promise<void> {
  const cluster = embeddedCluster(dataDir)
  cluster.adopt(files)
  const login = newLogin()
  await cluster.resetLogins(login)
  // It has no socket before its first start. The root directory is never a cluster, so no start looks for a socket
  // there.
  writeConnectionFile(dataDir, { ...login, directory: '/', host: join(dataDir, 'postgres'), port: SOCKET_PORT })
}
