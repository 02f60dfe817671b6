import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import pg from 'pg'
import { inject } from 'vitest'
import type { Connection } from '../../src/base/db/open-database.ts'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { fileIdentity } from '../../src/money/ledger/journal/claim-directory.ts'
import { databaseUrl, sourceProgram } from '../cli/run-cli.ts'
import { cloneDatabase, runOnServer } from '../harness/database.ts'
import { fixtureConfig, type ModelServer, type Program } from './fixture-gateway.ts'
import type { Observed, Period } from './observe.ts'

/** What make-fixture.ts wrote besides the database. */
export interface Expected {
  readonly masterKey: string
  readonly keys: Readonly<Record<string, string>>
  readonly period: Period
  readonly observed: Observed
  /** Only of versions with people, vouchers and keys of hosters. */
  readonly password: string
  readonly people: readonly string[]
  readonly adaCustomerId: string
  readonly voucherCode: string
  readonly hosterKey: string
}

export interface RestoredFixture {
  /** This version, on the restored data. */
  readonly program: Program
  readonly expected: Expected
  readonly connection: Connection
  readonly pool: Pool
  readonly directory: string
  drop(): Promise<void>
}

let restored = 0

/** Restores the database and the data directory of an earlier version, as that version left them when it was killed. */
export async function restoreFixture(day: string, models: ModelServer, more: object = {}): Promise<RestoredFixture> {
  const fixture = fileURLToPath(new URL(day, import.meta.url))
  const expected: Expected = JSON.parse(gunzipSync(readFileSync(join(fixture, 'expected.json.gz'))).toString())
  const database = `upgrade_${process.pid}_${++restored}`
  await cloneDatabase('template0', database)
  const connection = { ...inject('templateConnection'), database }
  const client = new pg.Client(connection)
  await client.connect()
  await client.query(gunzipSync(readFileSync(join(fixture, 'database.sql.gz'))).toString())
  await client.end()

  const directory = mkdtempSync(join(tmpdir(), 'switchyard-upgrade-'))
  const dataDir = join(directory, 'data')
  cpSync(join(fixture, 'data'), dataDir, { recursive: true })
  claimAsBefore(join(dataDir, 'journal', '1'))
  writeFileSync(join(directory, 'switchyard.yaml'), fixtureConfig(models, more))
  const env = {
    DATABASE_URL: databaseUrl(connection),
    SWITCHYARD_DATA: dataDir,
    SWITCHYARD_CONFIG: join(directory, 'switchyard.yaml'),
    SWITCHYARD_MASTER_KEY: expected.masterKey,
  }
  const pool = createPool(connection, { max: 2, applicationName: database })
  return {
    program: { command: sourceProgram, directory, env },
    expected,
    connection,
    pool,
    directory,
    async drop() {
      await pool.end()
      await runOnServer(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
      rmSync(directory, { recursive: true })
    },
  }
}

/**
 * Writes the identity of the restored lock next to the ids of the nodes. A start then knows that the nodes are dead, as on the
 * disk of the earlier version; in a copy it would wait until they have been silent for long.
 */
function claimAsBefore(journal: string): void {
  const file = join(journal, 'node')
  if (!existsSync(file)) return
  const identity = fileIdentity(join(journal, 'lock'))
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^(\S+) .*$/gm, `$1 ${identity}`))
}
