import { chmodSync, chownSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Account } from './embedded-account.ts'

/** The port number only names the socket file: the embedded PostgreSQL never listens on a network address. */
export const SOCKET_PORT = 5432

const SOCKET_NAME = `.s.PGSQL.${SOCKET_PORT}`

/** Returns the path of PostgreSQL's lock on the socket in `directory`. */
export function socketLockPath(directory: string): string {
  return join(directory, `${SOCKET_NAME}.lock`)
}

/**
 * Chooses where the socket goes: the cluster, which only its owner may enter, or a new temporary directory if
 * that path is too long.
 */
export function chooseSocketDir(runAs: Account, directory: string): string {
  if (socketFits(directory)) return directory
  const socketDir = mkdtempSync(join(tmpdir(), 'switchyard-'))
  chmodSync(socketDir, 0o700)
  if (runAs.owner) chownSync(socketDir, runAs.owner.uid, runAs.owner.gid)
  return socketDir
}

/** Removes what `chooseSocketDir` created; leaves a cluster alone. */
export function removeSocketDir(socketDir: string | undefined): void {
  if (socketDir && dirname(socketDir) === tmpdir()) rmSync(socketDir, { recursive: true, force: true })
}

export function socketFits(directory: string): boolean {
  // sun_path holds 108 bytes on Linux and 104 on macOS, the closing zero included.
  return Buffer.byteLength(join(directory, SOCKET_NAME)) <= 103
}

/** Whether two paths lead to the same directory; false when one does not exist. */
export function isSamePlace(one: string, other: string): boolean {
  try {
    return realpathSync(one) === realpathSync(other)
  } catch {
    return false
  }
}
