import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { databaseUrl, runInProcess } from '../cli/run-cli.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

// The command `export` took every error of the look at the migrations for those of a foreign database, and named a wrong remedy.

const database = useTestDatabase('test')

async function exportIn(env: Readonly<Record<string, string>> = {}) {
  const cwd = mkdtempSync(join(tmpdir(), 'switchyard-export-'))
  onTestFinished(() => rmSync(cwd, { recursive: true }))
  const url = databaseUrl(database.connection)
  return runInProcess(['export', 'books.ndjson.gz'], { cwd, env: { DATABASE_URL: url, SWITCHYARD_DATA: cwd, ...env } })
}

test('the export of a newer database says that it is newer', async () => {
  await database.pool.query("INSERT INTO migration (version, name, checksum) VALUES (9999, '9999_later.sql', 'x')")
  expect(await exportIn()).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('The database is newer than this Switchyard: it has migration 9999_later.sql'),
  })
})

test('the export of a database that can only be read says so', async () => {
  const { rows } = await database.pool.query<{ name: string }>('SELECT current_database() AS name')
  await database.pool.query(`ALTER DATABASE "${rows[0]!.name}" SET default_transaction_read_only = on`)
  expect(await exportIn()).toMatchObject({ code: 1, stderr: expect.stringContaining('can only be read by the role') })
})

test('the export of a database with a migration of no version names the commit that made it', async () => {
  await database.pool.query("UPDATE migration SET checksum = 'edited' WHERE version = 1")
  expect(await exportIn()).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('a commit of after 2026-11-23 that was never a version'),
  })
})
