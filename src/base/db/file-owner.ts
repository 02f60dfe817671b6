import { chownSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Gives a file that root created to the owner of its directory, because that user may start Switchyard
 * next time. Does nothing for other users.
 */
export function giveToSameOwner(path: string): void {
  giveToOwnerOf(dirname(path), path)
}

/** Gives a file that root created to the owner of another one. Does nothing for other users. */
export function giveToOwnerOf(other: string, path: string): void {
  if (process.geteuid?.() !== 0) return
  const { uid, gid } = statSync(other)
  chownSync(path, uid, gid)
}
