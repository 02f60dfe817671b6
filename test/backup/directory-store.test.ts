import { readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { fileEntry } from '../../src/cli/backup/archive.ts'
import { backupName } from '../../src/cli/backup/backup-store.ts'
import { directoryStore } from '../../src/cli/backup/directory-store.ts'
import { checkBackup } from '../../src/cli/backup/restore-backup.ts'
import type { TarEntry } from '../../src/cli/backup/tar.ts'
import { useResource } from '../harness/use-resource.ts'

const directory = useResource(
  async () => ({ path: await mkdtemp(join(tmpdir(), 'switchyard-store-')) }),
  ({ path }) => rm(path, { recursive: true }),
  'test',
)
const nameAt = (time: string) => backupName(new Date(time))

async function* entries(): AsyncGenerator<TarEntry> {
  const description = { format: 1, started_at: '2026-11-29T03:15:00.000Z', switchyard: '0.2.0', postgres: '18' }
  yield fileEntry('backup.json', JSON.stringify(description))
  yield fileEntry('postgres/PG_VERSION', '18\n')
}

test('backups are written, listed, read and removed, and other files stay', async () => {
  const store = directoryStore(directory.path)
  const [older, newer] = [nameAt('2026-11-28T03:15:00Z'), nameAt('2026-11-29T03:15:00Z')]
  await store.write(older, entries())
  const bytes = await store.write(newer, entries())
  writeFileSync(join(directory.path, 'notes.txt'), 'mine')
  expect(await store.list()).toEqual([
    { name: newer, startedMs: Date.parse('2026-11-29T03:15:00Z'), bytes },
    { name: older, startedMs: Date.parse('2026-11-28T03:15:00Z'), bytes: statSync(join(directory.path, older)).size },
  ])
  expect(await checkBackup(store.read(newer))).toMatchObject({ files: 2 })
  await store.remove(older)
  expect(readdirSync(directory.path).sort()).toEqual(['notes.txt', newer])
})

test('what a killed backup left is removed after a day', async () => {
  const file = (name: string, hoursAgo: number) => {
    writeFileSync(join(directory.path, name), '')
    const at = Date.now() / 1000 - hoursAgo * 3_600
    utimesSync(join(directory.path, name), at, at)
  }
  file(`${nameAt('2026-11-28T03:15:00Z')}.unfinished`, 25)
  file(`${nameAt('2026-11-29T03:15:00Z')}.unfinished`, 1)
  file('film.unfinished', 25)
  await directoryStore(directory.path).sweep()
  expect(readdirSync(directory.path).sort()).toEqual([
    'film.unfinished',
    `${nameAt('2026-11-29T03:15:00Z')}.unfinished`,
  ])
})

test('a directory that does not exist is not created', async () => {
  const store = directoryStore(join(directory.path, 'unmounted'))
  await expect(store.list()).rejects.toThrow(/^Cannot read .*\/unmounted: no such file or directory\. Create the/)
  await expect(store.write(nameAt('2026-11-29T03:15:00Z'), entries())).rejects.toThrow('Cannot write')
})
