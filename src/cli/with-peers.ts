import { createPool } from '../base/db/pool.ts'
import type { OpenPeer, PeerDatabase } from '../operator/cells/link-cell.ts'

/** Runs `work` on the databases of other cells, and closes their connections. */
export async function withPeers<T>(
  peers: readonly PeerDatabase[],
  work: (databases: OpenPeer[]) => Promise<T>,
): Promise<T> {
  const databases = peers.map(({ name, databaseUrl }) => ({
    name,
    databaseUrl,
    pool: createPool(
      { connectionString: databaseUrl },
      { max: 2, applicationName: 'switchyard cli', statementTimeoutMs: 0, lockTimeoutMs: 10_000 },
    ),
  }))
  try {
    return await work(databases)
  } finally {
    await Promise.all(databases.map(({ pool }) => pool.end()))
  }
}
