import { createHash } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Sql } from '../../../base/db/pool.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import { elementAt } from '../../../base/runtime/collections.ts'

export interface ArchiveFile {
  readonly requests: bigint
  readonly costNanos: Nanos
  readonly bytes: number
  /** The checksum of the compressed file, in hexadecimal. */
  readonly sha256: string
}

const ROWS_PER_PAGE = 5_000
const LOWEST_UUID = '00000000-0000-0000-0000-000000000000'

/**
 * Writes the rows of `table`, one JSON object per line, compressed with gzip, to `path`, and its checksum to
 * `<path>.sha256`. Reads the rows in pages, each with a snapshot of its own, so the rows must not change. Both files
 * are on the disk when this resolves. Replaces earlier files of these names at the end, and whole.
 */
export async function writeArchiveFile(sql: Sql, table: string, path: string): Promise<ArchiveFile> {
  const totals = { requests: 0n, costNanos: 0n }
  async function* lines() {
    let after = [LOWEST_UUID, LOWEST_UUID]
    for (;;) {
      const { rows } = await sql.query<PageRow>(
        `SELECT customer_id, request_id, cost_nanos, row_to_json(u)::text AS line
         FROM ${table} u WHERE (customer_id, request_id) > ($1, $2) ORDER BY customer_id, request_id LIMIT ${ROWS_PER_PAGE}`,
        after,
      )
      for (const { cost_nanos } of rows) totals.costNanos += cost_nanos
      totals.requests += BigInt(rows.length)
      if (rows.length > 0) yield rows.map(({ line }) => `${line}\n`).join('')
      if (rows.length < ROWS_PER_PAGE) return
      const last = elementAt(rows, rows.length - 1)
      after = [last.customer_id, last.request_id]
    }
  }

  const hash = createHash('sha256')
  let bytes = 0
  await writeThrough(`${path}.partial`, async write => {
    await pipeline(lines, createGzip(), async compressed => {
      for await (const chunk of compressed as AsyncIterable<Buffer>) {
        hash.update(chunk)
        bytes += chunk.length
        await write(chunk)
      }
    })
  })
  const sha256 = hash.digest('hex')
  // In the format of sha256sum.
  await writeThrough(`${path}.sha256.partial`, write => write(`${sha256}  ${basename(path)}\n`))
  await rename(`${path}.sha256.partial`, `${path}.sha256`)
  await rename(`${path}.partial`, path)
  await using directory = await open(dirname(path), 'r')
  await directory.sync()
  return { ...totals, bytes, sha256 }
}

interface PageRow {
  readonly customer_id: string
  readonly request_id: string
  readonly cost_nanos: Nanos
  readonly line: string
}

/** Creates a file, or empties it, and flushes to the disk what `work` writes. */
async function writeThrough(
  path: string,
  work: (write: (chunk: Buffer | string) => Promise<void>) => Promise<void>,
): Promise<void> {
  await using file = await open(path, 'w', 0o600)
  try {
    // writeFile goes on after a write that stored only a part.
    await work(chunk => file.writeFile(chunk))
    await file.sync()
  } catch (error) {
    // On a full disk it would keep the space that others need.
    await rm(path, { force: true })
    throw error
  }
}
