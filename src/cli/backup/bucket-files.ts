import { type BackupBucket, placeName } from '../../base/domain/backup-plan.ts'
import { bucketProblem, RetryingClient } from './bucket-client.ts'
import { PART_BYTES_MIN } from './bucket-store.ts'
import { uploadObject } from './bucket-upload.ts'
import type { FilePlace } from './file-place.ts'

/** Files are objects of a bucket. The parts of an upload that was killed stay until a rule of the bucket removes them. */
export function bucketFiles(place: BackupBucket): FilePlace {
  const client = RetryingClient.of(place)
  return {
    async write(name, bytes) {
      // Errors of the source are not errors of the bucket.
      let failure: unknown
      const read = async function* () {
        try {
          yield* bytes
        } catch (error) {
          failure = error
          throw error
        }
      }
      try {
        await uploadObject(client, place.prefix + name, read(), PART_BYTES_MIN)
      } catch (error) {
        if (failure !== undefined) throw failure
        throw new Error(`Cannot write ${placeName(place)}${name}: ${bucketProblem(error)}`, { cause: error })
      }
    },
  }
}
