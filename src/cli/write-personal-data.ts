import { open, unlink } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { PersonalExport } from '../operator/export-personal-data.ts'
import { Failure } from './failure.ts'

/**
 * Writes an export to a new file that only its owner can read. Returns the path. Throws Failure if there is such a file.
 *
 * @param begin called when the file is open
 */
export async function writePersonalData(file: string, begin: () => Promise<PersonalExport>): Promise<string> {
  const path = resolve(file)
  const handle = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    throw new Failure(error.code === 'EEXIST' ? `${path} exists already.` : `Cannot write ${path} (${error.code}).`)
  })
  try {
    const { json } = await begin()
    await pipeline(json, handle.createWriteStream())
  } catch (error) {
    // Half a file looks like a whole one.
    await unlink(path)
    throw error
  }
  return path
}
