import { open, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import { isFileError, syncDirectory, UNFINISHED } from './archive.ts'
import type { FilePlace } from './file-place.ts'

/** Files that only their owner can read. The directory must exist: a disk that is not mounted must not count as an empty one. */
export async function directoryFiles(path: string): Promise<FilePlace> {
  await readdir(path).catch(error => {
    throw new Error(`Cannot read ${path}: ${systemErrorText(error)}. Create the directory, or mount its disk.`)
  })
  return {
    async write(name, bytes) {
      const file = join(path, name)
      const unfinished = file + UNFINISHED
      try {
        // Empties what a killed process left.
        const handle = await open(unfinished, 'w', 0o600)
        await pipeline(bytes, handle.createWriteStream({ flush: true }))
        await rename(unfinished, file)
        await syncDirectory(path)
      } catch (error) {
        await rm(unfinished, { force: true })
        throw isFileError(error)
          ? new Error(`Cannot write ${file}: ${systemErrorText(error)}.`, { cause: error })
          : error
      }
    },
  }
}
