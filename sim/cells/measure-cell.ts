import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { printProgress } from '../../bench/print-progress.ts'
import { type CustomerAtRest, type MeasuredDirectory, measureCustomers, measureDirectory } from './measure-customers.ts'
import { type MeasuredLedger, measureLedger } from './measure-ledger.ts'
import { startMeasuredDatabase, type TableSize } from './measured-database.ts'

/** What a cell costs, as measured on this machine. */
export interface MeasuredCell {
  readonly customers: number
  readonly atRest: CustomerAtRest
  readonly ledger: MeasuredLedger
  /** After all requests. */
  readonly tables: ReadonlyMap<string, TableSize>
  readonly directory: MeasuredDirectory
  /** One megabyte after the other, each on the disk before the next. */
  readonly diskBytesPerS: number
}

/** Measures with a PostgreSQL in `dir`. */
export async function measureCell(dir: string, customerCount: number, directoryKeys: number): Promise<MeasuredCell> {
  const diskBytesPerS = measureDisk(join(dir, 'disk'))
  const database = await startMeasuredDatabase(dir)
  try {
    const { customers, atRest } = await measureCustomers(database, customerCount)
    printProgress(`a customer at rest: ${atRest.rows.toFixed(1)} rows, ${atRest.bytes.toFixed(0)} bytes`)
    const ledger = await measureLedger(database, customers)
    // The burst of the measurement has left more dead rows than a day does.
    await database.rewrite(UPDATED_TABLES)
    const tables = await database.readTables()
    const directory = await measureDirectory(database, customers, directoryKeys)
    return { customers: customerCount, atRest, ledger, tables, directory, diskBytesPerS }
  } finally {
    await database.close()
  }
}

/** Tables with rows that requests change. Others only get rows. */
const UPDATED_TABLES = ['balance', 'usage_hour', 'usage_day', 'usage_key_day']
const BLOCKS = 8
const BLOCK_MB = 32

/** The fastest of some blocks: a busy machine makes the others slower. */
function measureDisk(path: string): number {
  const chunk = Buffer.alloc(1_000_000, 'x')
  const file = openSync(path, 'w')
  try {
    const seconds = Array.from({ length: BLOCKS }, () => {
      const startedMs = performance.now()
      for (let written = 0; written < BLOCK_MB; written++) {
        writeSync(file, chunk)
        fdatasyncSync(file)
      }
      return (performance.now() - startedMs) / 1000
    })
    return (BLOCK_MB * chunk.length) / Math.min(...seconds)
  } finally {
    closeSync(file)
    rmSync(path)
  }
}
