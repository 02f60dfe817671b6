import { createHash, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fileEntry } from '../../src/cli/backup/archive.ts'
import { type BackupStore, backupName } from '../../src/cli/backup/backup-store.ts'
import { bucketStore } from '../../src/cli/backup/bucket-store.ts'
import { checkBackup } from '../../src/cli/backup/restore-backup.ts'
import type { TarEntry } from '../../src/cli/backup/tar.ts'
import { type ScriptedS3, startScriptedS3 } from '../harness/scripted-s3.ts'

let s3: ScriptedS3
let store: BackupStore
beforeEach(async () => {
  s3 = await startScriptedS3()
  store = bucketStore(s3.place, { pauseMs: 1, partBytesMin: PART_BYTES })
})
afterEach(() => s3.close())

const PART_BYTES = 65_536
const name = backupName(new Date('2026-11-29T03:15:00Z'))
const description = JSON.stringify({
  format: 1,
  started_at: '2026-11-29T03:15:00.000Z',
  switchyard: '0.2.0',
  postgres: '18',
})

/** A backup whose archive is about as large as its content, which cannot be compressed. */
async function* backupOf(bytes: number): AsyncGenerator<TarEntry> {
  yield fileEntry('backup.json', description)
  yield fileEntry('postgres/PG_VERSION', '18\n')
  yield fileEntry('postgres/base/1', randomBytes(bytes))
}

const sumOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

test('a small backup is one request, and is read, listed and removed', async () => {
  const bytes = await store.write(name, backupOf(1_000))
  expect(s3.requests).toEqual(['PUT object'])
  const stored = s3.objects.get(`switchyard/${name}`)
  expect(stored).toHaveLength(bytes)
  expect(await checkBackup(store.read(name))).toMatchObject({ files: 3, hasMasterKey: false })
  s3.objects.set('switchyard/notes.txt', Buffer.from('mine'))
  s3.objects.set(`elsewhere/${name}`, Buffer.from('of another gateway'))
  expect(await store.list()).toEqual([{ name, startedMs: Date.parse('2026-11-29T03:15:00Z'), bytes }])
  await store.remove(name)
  expect([...s3.objects.keys()]).toEqual(['switchyard/notes.txt', `elsewhere/${name}`])
})

test('a large backup is uploaded in parts, of which each is checked', async () => {
  const bytes = await store.write(name, backupOf(2 * PART_BYTES))
  expect(s3.requests).toEqual(['POST upload', 'PUT part', 'PUT part', 'PUT part', 'POST complete'])
  expect(s3.objects.get(`switchyard/${name}`)).toHaveLength(bytes)
  expect(await checkBackup(store.read(name))).toMatchObject({ files: 3 })
  expect(s3.uploads.size).toBe(0)
})

test('connections that are cut are made again, also in the middle of a download', async () => {
  let cuts = 0
  s3.fault = request => (['PUT part', 'GET object'].includes(request) && ++cuts % 2 === 1 ? 'cut' : undefined)
  await store.write(name, backupOf(PART_BYTES + 1_000))
  expect(s3.requests.filter(request => request === 'PUT part')).toHaveLength(4)
  cuts = 0
  const read = await buffer(await store.read(name).open())
  expect(sumOf(read)).toBe(sumOf(s3.objects.get(`switchyard/${name}`) ?? Buffer.alloc(0)))
  expect(s3.requests.filter(request => request === 'GET object')).toHaveLength(2)
})

test('a lost answer to the last request of an upload does no harm', async () => {
  let isFirst = true
  s3.fault = request => {
    if (request !== 'POST complete' || !isFirst) return undefined
    isFirst = false
    return 'lost'
  }
  const bytes = await store.write(name, backupOf(PART_BYTES + 1_000))
  expect(s3.objects.get(`switchyard/${name}`)).toHaveLength(bytes)
})

test('an upload that is cut for good leaves no object and no parts', async () => {
  let parts = 0
  s3.fault = request => (request === 'PUT part' && ++parts > 1 ? 'cut' : undefined)
  await expect(store.write(name, backupOf(2 * PART_BYTES))).rejects.toThrow(/^Cannot write http.*fetch failed: /)
  expect([s3.objects.size, s3.uploads.size]).toEqual([0, 0])
  // It goes no further.
  expect(parts).toBe(5)
})

test.each([
  [{ status: 403, code: 'AccessDenied' }, 'the access key may not do this. Exports need s3:PutObject'],
  [{ status: 507, code: 'XMinioStorageFull' }, 'the bucket is full. Free space there'],
  [{ status: 403, code: 'QuotaExceeded' }, 'the bucket is full. Free space there'],
  [{ status: 400, code: 'EntityTooLarge' }, 'scripted (400 EntityTooLarge)'],
])('a bucket that refuses parts with %j is not asked again', async (fault, problem) => {
  s3.fault = request => (request === 'PUT part' ? fault : undefined)
  await expect(store.write(name, backupOf(PART_BYTES + 1_000))).rejects.toThrow(problem)
  expect(s3.requests).toEqual(['POST upload', 'PUT part', 'DELETE upload'])
  expect([s3.objects.size, s3.uploads.size]).toEqual([0, 0])
})

test('a busy bucket is asked again', async () => {
  let requests = 0
  s3.fault = () => (++requests < 3 ? { status: 503, code: 'SlowDown' } : undefined)
  await store.write(name, backupOf(1_000))
  expect(requests).toBe(3)
})

test('wrong keys, a wrong clock and a missing bucket are named', async () => {
  const refused = (changes: object) => bucketStore({ ...s3.place, ...changes }, { pauseMs: 1 }).list()
  await expect(refused({ secretAccessKey: 'other' })).rejects.toThrow(
    /the bucket refuses the access key\. Check backup\.s3\.access_key_id.*\(403 SignatureDoesNotMatch\)/,
  )
  await expect(refused({ accessKeyId: 'other' })).rejects.toThrow('(403 InvalidAccessKeyId)')
  await expect(refused({ bucket: 'missing' })).rejects.toThrow('the bucket does not exist. Create it')
  s3.nowMs = () => Date.now() + 3_600_000
  await expect(store.list()).rejects.toThrow('the clock of this machine is wrong')
  await s3.close()
  await expect(store.list()).rejects.toThrow(/fetch failed: .*ECONNREFUSED/)
})

test('a backup that fails itself is no problem of the bucket', async () => {
  async function* failing() {
    yield* backupOf(PART_BYTES + 1_000)
    throw new Error('PostgreSQL could not make the backup: a page is damaged')
  }
  await expect(store.write(name, failing())).rejects.toThrow(/^PostgreSQL could not make the backup: a page/)
  expect([s3.objects.size, s3.uploads.size]).toEqual([0, 0])
})

test('a damaged backup is told from one that cannot be read now', async () => {
  await store.write(name, backupOf(1_000))
  const object = s3.objects.get(`switchyard/${name}`) as Buffer
  s3.fault = request => (request === 'GET object' ? { status: 503, code: 'SlowDown' } : undefined)
  await expect(checkBackup(store.read(name))).rejects.toMatchObject({ name: 'UnreadableArchive' })
  s3.fault = () => undefined
  await expect(checkBackup(store.read('missing'))).rejects.toThrow('there is no such backup')
  s3.objects.set(`switchyard/${name}`, object.subarray(0, object.length - 100))
  await expect(checkBackup(store.read(name))).rejects.toMatchObject({ name: 'DamagedArchive' })
})

test('the parts of a backup that was killed are removed after a day', async () => {
  const upload = (key: string, hoursAgo: number) => {
    s3.uploads.set(key, { key, beganMs: Date.now() - hoursAgo * 3_600_000, parts: new Map() })
  }
  upload(`switchyard/${name}`, 25)
  upload(`switchyard/${backupName(new Date())}`, 1)
  upload('switchyard/film.mp4', 25)
  upload(`elsewhere/${name}`, 25)
  await store.sweep()
  expect([...s3.uploads.keys()]).not.toContain(`switchyard/${name}`)
  expect(s3.uploads.size).toBe(3)
})
