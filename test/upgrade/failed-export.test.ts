import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type Sql, transaction } from '../../src/base/db/pool.ts'
import { EXPORT_FORMAT, exportBooks } from '../../src/cli/backup/export-books.ts'
import { useLedgerWorld } from '../ledger/ledger-world.ts'

const world = useLedgerWorld()

test('an export that fails leaves no file, so that the next one can write it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-export-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'books.ndjson.gz')
  await world.addCustomer(5n)
  const description = {
    format: EXPORT_FORMAT,
    ...{ export_id: crypto.randomUUID(), made_at: '2026-11-29T00:00:00Z' },
    ...{ switchyard: '0.2.0', migration: 'x', master_key_mark: null },
  } as const
  const exported = (isCut: boolean) =>
    transaction(world.pool, sql => {
      // The database is away in the middle.
      const cut: Sql['query'] = ((...args: Parameters<Sql['query']>) =>
        isCut && String(args[0]).startsWith('FETCH') ? sql.query('SELECT 1 / 0') : sql.query(...args)) as never
      return exportBooks({ ...sql, query: cut }, file, join(directory, 'journal'), description)
    })
  await expect(exported(true)).rejects.toThrow('division by zero')
  expect(existsSync(file)).toBe(false)
  expect(await exported(false)).toMatchObject({ customers: 1 })
  expect(existsSync(file)).toBe(true)
  await expect(exported(false)).rejects.toThrow('EEXIST')
  expect(existsSync(file)).toBe(true)
})
