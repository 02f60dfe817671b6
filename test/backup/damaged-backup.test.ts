import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { fileEntry, fileSource, writeArchive } from '../../src/cli/backup/archive.ts'
import { checkBackup, restoreBackup } from '../../src/cli/backup/restore-backup.ts'
import type { TarEntry } from '../../src/cli/backup/tar.ts'
import { useResource } from '../harness/use-resource.ts'

const directory = useResource(
  async () => ({ path: await mkdtemp(join(tmpdir(), 'switchyard-damaged-')) }),
  ({ path }) => rm(path, { recursive: true }),
)
const log = { info() {}, warn() {} }
const checkFile = (path: string) => checkBackup(fileSource(path))
const restoreFile = (path: string, dataDir: string) => restoreBackup(fileSource(path), dataDir, log)
const description = { format: 1, started_at: '2026-11-23T03:15:00.000Z', switchyard: '0.1.0', postgres: '18' }
let written = 0

async function archiveOf(entries: readonly TarEntry[]): Promise<string> {
  const path = join(directory.path, `${++written}.tar.zst`)
  await writeArchive(
    path,
    (async function* () {
      yield* entries
    })(),
  )
  return path
}

const described = (changes: object = {}) => fileEntry('backup.json', JSON.stringify({ ...description, ...changes }))
const sample = () =>
  archiveOf([described(), fileEntry('master.key', 'ab'.repeat(32)), fileEntry('postgres/PG_VERSION', '18\n')])

/** Returns a file with these bytes. */
function fileOf(bytes: Buffer): string {
  const path = join(directory.path, `${++written}.tar.zst`)
  writeFileSync(path, bytes)
  return path
}

test('an undamaged backup passes the check', async () => {
  expect(await checkFile(await sample())).toEqual({
    description,
    files: 3,
    hasMasterKey: true,
    hasConfiguration: false,
  })
})

// The list of checksums of many files takes longer to read than its header.
test('a backup that was cut off in the list of its checksums is refused by name', async () => {
  const many = Array.from({ length: 3_000 }, (_, n) => fileEntry(`postgres/base/${n}`, String(n)))
  const path = await archiveOf([described(), ...many])
  const bytes = readFileSync(path)
  const cut = fileOf(bytes.subarray(0, bytes.length - 20_000))
  await expect(checkFile(cut)).rejects.toThrow(/is not a complete backup, .* reading stopped at checksums.sha256: /)
})

test('a backup that was cut off anywhere is refused', async () => {
  const bytes = readFileSync(await sample())
  // The last bytes only say that the compressed data ends.
  for (let length = 0; length < bytes.length - 16; length++)
    await expect(checkFile(fileOf(bytes.subarray(0, length))), `${length} bytes`).rejects.toThrow(
      /is not a complete backup, or it is damaged: /,
    )
})

test('a backup with a changed byte is refused, wherever it is', async () => {
  const tar = zstdDecompressSync(readFileSync(await sample()))
  const isContent = (offset: number) => tar[offset] !== 0
  let changed = 0
  for (let offset = 0; offset < tar.length; offset++) {
    // The fields of a header for times, owners and modes have no effect.
    const inHeader = tar.toString('latin1', offset - (offset % 512) + 257, offset - (offset % 512) + 262) === 'ustar'
    if (!isContent(offset) || inHeader) continue
    const bytes = Buffer.from(tar)
    bytes[offset]! ^= 1
    await expect(checkFile(fileOf(zstdCompressSync(bytes))), `byte ${offset}`).rejects.toThrow()
    changed++
  }
  expect(changed).toBeGreaterThan(300)
  // Compressed, a changed byte is found even before.
  const compressed = readFileSync(await sample())
  compressed[compressed.length >> 1]! ^= 1
  await expect(checkFile(fileOf(compressed))).rejects.toThrow('is not a complete backup, or it is damaged')
})

test('a damaged file is named, also where it was not compressible', async () => {
  // Random bytes are stored as they are, so a changed one is found by checksums alone.
  const noise = randomBytes(300_000)
  const path = await archiveOf([
    described(),
    fileEntry('postgres/PG_VERSION', '18\n'),
    fileEntry('postgres/base/1', noise),
  ])
  const bytes = readFileSync(path)
  bytes[bytes.indexOf(noise.subarray(5_000, 5_020))]! ^= 1
  await expect(checkFile(fileOf(bytes))).rejects.toThrow('the checksum of postgres/base/1 in it is wrong')
  await expect(checkFile(fileOf(bytes.subarray(0, 200_000)))).rejects.toThrow(
    'reading stopped at postgres/base/1: unexpected end',
  )
})

test('nothing is restored from a damaged backup', async () => {
  const tar = zstdDecompressSync(readFileSync(await sample()))
  tar[tar.indexOf('abab')]! ^= 1
  const dataDir = join(directory.path, 'damaged')
  await expect(restoreFile(fileOf(zstdCompressSync(tar)), dataDir)).rejects.toThrow(
    /: the checksum of master\.key in it is wrong\. Copy the backup again from where it was made, or use another one\.$/,
  )
  expect(readdirSync(dataDir)).toEqual(['postgres.start.lock'])
})

test.each([
  [
    { postgres: '19' },
    /has the files of PostgreSQL 19, but this Switchyard comes with PostgreSQL 18\. Restore it with/,
  ],
  [{ format: 2, switchyard: '9.0.0' }, /was made by Switchyard 9\.0\.0 and has the format 2; this version reads/],
])('a backup of other programs is refused: %j', async (changes, message) => {
  const path = await archiveOf([described(changes), fileEntry('postgres/PG_VERSION', '19\n')])
  await expect(restoreFile(path, join(directory.path, 'other'))).rejects.toThrow(message)
})

test('other archives, and names that lead out of the data directory, are refused', async () => {
  const photos = await archiveOf([fileEntry('photos/1.jpg', 'x')])
  await expect(checkFile(photos)).rejects.toThrow('is not a backup of Switchyard')
  for (const name of ['../evil', 'postgres/../../evil', '/etc/evil', 'postgres//x']) {
    const path = await archiveOf([described(), fileEntry(name, 'x')])
    await expect(checkFile(path), name).rejects.toThrow('it has a file with the name')
  }
  await expect(checkFile(fileOf(Buffer.from('not compressed')))).rejects.toThrow('is not a complete backup')
})

test('a restore continues where an interrupted one left its files, and in a new file system', async () => {
  const dataDir = join(directory.path, 'interrupted')
  await mkdir(join(dataDir, 'restore.new-killed', 'files'), { recursive: true })
  await mkdir(join(dataDir, 'lost+found'))
  // The sample has no database, so it gets as far as PostgreSQL.
  await expect(restoreFile(await sample(), dataDir)).rejects.toThrow(/postgres failed|PostgreSQL/)
  expect(readdirSync(dataDir).sort()).toEqual(['lost+found', 'postgres.start.lock'])
})
