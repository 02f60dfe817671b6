import { Readable } from 'node:stream'
import { type BackupBucket, placeName } from '../../base/domain/backup-plan.ts'
import { archiveBytes, UnreadableArchive } from './archive.ts'
import { type BackupStore, backupsAmong, LEFTOVER_MS } from './backup-store.ts'
import { bucketProblem, RetryingClient } from './bucket-client.ts'
import { abortUpload, listUploads, uploadObject } from './bucket-upload.ts'

/**
 * Keeps backups as objects of a bucket.
 *
 * @param bytesMax bounds the size of a backup that is written; S3 allows 10,000 parts of an object
 * @param pauseMs before the first repetition of a request that failed
 */
export function bucketStore(
  place: BackupBucket,
  {
    bytesMax = 0,
    partBytesMin = PART_BYTES_MIN,
    pauseMs,
  }: { readonly bytesMax?: number; readonly partBytesMin?: number; readonly pauseMs?: number } = {},
): BackupStore {
  const { prefix } = place
  const client = RetryingClient.of(place, pauseMs)
  const address = (name: string) => `${placeName(place)}${name}`
  const explained = async <T>(what: string, work: Promise<T>): Promise<T> =>
    await work.catch(error => {
      throw new Error(`${what}: ${bucketProblem(error)}`, { cause: error })
    })

  return {
    async write(name, entries) {
      const bytes = archiveBytes(entries)
      try {
        return await explained(
          `Cannot write ${address(name)}`,
          uploadObject(client, prefix + name, bytes, Math.max(partBytesMin, Math.ceil(bytesMax / PARTS_MAX))),
        )
      } catch (error) {
        // The backup itself may have failed. AbortError only says that the upload reads no further.
        const { errored } = bytes
        throw errored === null || errored.name === 'AbortError' ? error : errored
      } finally {
        bytes.destroy()
      }
    },
    async list() {
      const list = async () => {
        const files: { name: string; bytes: number }[] = []
        for await (const { key, size } of client.listObjects({ prefix }))
          files.push({ name: key.slice(prefix.length), bytes: size })
        return backupsAmong(files)
      }
      return await explained(`Cannot list the backups in ${placeName(place)}`, list())
    },
    read: name => ({
      name: address(name),
      open: async () => Readable.from(download(client, prefix + name, address(name)), { objectMode: false }),
    }),
    remove: name => explained(`Cannot delete ${address(name)}`, client.deleteObject(prefix + name)),
    async sweep() {
      const uploads = await explained(`Cannot list the uploads to ${placeName(place)}`, listUploads(client, prefix))
      for (const upload of uploads) {
        const isOurs = backupsAmong([{ name: upload.key.slice(prefix.length), bytes: 0 }]).length > 0
        if (isOurs && upload.beganMs < Date.now() - LEFTOVER_MS)
          await explained(`Cannot end an upload to ${address('')}`, abortUpload(client, upload))
      }
    },
  }
}

/** A part is in memory until the bucket has it. */
export const PART_BYTES_MIN = 16 * 1_048_576
const PARTS_MAX = 10_000

/** How often a download that was cut goes on where it ended. */
const CUTS_MAX = 4

async function* download(client: RetryingClient, key: string, name: string): AsyncGenerator<Uint8Array> {
  const unreadable = (error: unknown) =>
    new UnreadableArchive(`Cannot read ${name}: ${bucketProblem(error)}`, { cause: error })
  let offset = 0
  for (let cuts = 0; ; cuts++) {
    const { body } = await client.getPartialObject(key, { offset, length: 0 }).catch(error => {
      throw unreadable(error)
    })
    if (body === null) return
    try {
      for await (const chunk of body) {
        offset += chunk.length
        yield chunk
      }
      return
    } catch (error) {
      if (cuts === CUTS_MAX) throw unreadable(error)
    }
  }
}
