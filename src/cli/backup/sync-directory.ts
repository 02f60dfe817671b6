import { open } from 'node:fs/promises'

/** Resolves when the names of the files in the directory survive a loss of power. */
export async function syncDirectory(path: string): Promise<void> {
  await using handle = await open(path, 'r')
  await handle.sync()
}
