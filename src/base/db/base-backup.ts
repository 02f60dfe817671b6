import { Readable } from 'node:stream'
import pg from 'pg'
import { codeOf } from './database-fault.ts'
import type { Connection } from './open-database.ts'

/**
 * Streams a tar archive of a running cluster: its files, and the WAL with which the next start makes them consistent as
 * of the end of the stream. PostgreSQL writes the archive itself, as for pg_basebackup, and checks each page on the
 * way. Throws an Error for the operator when it cannot, also when a page is damaged.
 *
 * @param owner the role that owns the database; it needs the attribute REPLICATION
 */
export async function* baseBackup(owner: Connection, onWarning: (message: string) => void): AsyncGenerator<Buffer> {
  const client = new pg.Client({ ...owner, ...walSender, application_name: 'switchyard backup' })
  client.on('error', () => {})
  client.on('notice', ({ severity, message = '' }) => {
    // A special file is its own socket.
    if (severity === 'WARNING' && !message.startsWith('skipping special file')) onWarning(`PostgreSQL: ${message}`)
  })
  try {
    await client.connect()
    // Keeps the WAL from now on, which checkpoints would remove. A temporary slot ends with its session.
    await client.query(`CREATE_REPLICATION_SLOT switchyard_backup_${process.pid} TEMPORARY PHYSICAL (RESERVE_WAL)`)
    yield* client.query(new BaseBackup()).archive
  } catch (error) {
    throw new Error(explain(error), { cause: error })
  } finally {
    await client.end().catch(() => {})
  }
}

/**
 * `database` admits a session by the lines of pg_hba.conf for ordinary ones. The types of pg do not know the option.
 */
const walSender: object = { replication: 'database', connectionTimeoutMillis: 10_000 }

function explain(error: unknown): string {
  if (codeOf(error) === '42501')
    return (
      'The database was created by an earlier version, without the right to make backups. Stop the gateway, delete ' +
      'postgres.json in the data directory, and start the gateway again: the start sets new logins. Then repeat the backup.'
    )
  return `PostgreSQL could not make the backup: ${error instanceof Error ? error.message : String(error)}`
}

/** A command for a pg client. Its answer is a stream of bytes. */
class BaseBackup implements pg.Submittable {
  readonly archive: Readable
  #archives = 0
  #socket: { pause(): void; resume(): void } | undefined

  constructor() {
    this.archive = new Readable({ read: () => this.#socket?.resume() })
  }

  submit(connection: pg.Connection): void {
    this.#socket = connection.stream
    connection.query("BASE_BACKUP (LABEL 'switchyard', CHECKPOINT 'fast', WAL, MANIFEST 'no')")
  }

  /**
   * The messages of an archive:
   * https://www.postgresql.org/docs/18/protocol-replication.html#PROTOCOL-REPLICATION-BASE-BACKUP
   */
  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    const kind = chunk.toString('latin1', 0, 1)
    if (kind === 'n' && ++this.#archives > 1)
      this.archive.destroy(
        new Error('it has tablespaces outside of the data directory, which a backup does not contain'),
      )
    if (kind !== 'd') return
    // pg reuses the memory of its messages.
    if (!this.archive.push(Buffer.from(chunk.subarray(1)))) this.#socket!.pause()
  }

  handleError(error: Error): void {
    this.archive.destroy(error)
  }

  handleReadyForQuery(): void {
    this.archive.push(null)
  }

  // Rows with positions in the WAL and the list of tablespaces.
  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleCommandComplete(): void {}
}
