import { open, unlink } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Failure } from './failure.ts'

/**
 * Writes a new file that only its owner can read. Returns the path. Throws Failure if there is such a file, and removes what is
 * incomplete.
 *
 * @param begin called when the file is open
 */
export async function writeNewFile(file: string, begin: () => Readable | Promise<Readable>): Promise<string> {
  const path = resolve(file)
  const handle = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    throw new Failure(error.code === 'EEXIST' ? `${path} exists already.` : `Cannot write ${path} (${error.code}).`)
  })
  try {
    await pipeline(await begin(), handle.createWriteStream())
  } catch (error) {
    // Half a file looks like a whole one.
    await unlink(path)
    throw error
  }
  return path
}
