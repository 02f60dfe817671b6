import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { getSystemErrorMessage } from 'node:util'
import { codeOf } from './database-fault.ts'

/**
 * Creates a directory and those above it, if they do not exist. Throws the error of the system.
 *
 * mkdirSync with `recursive` never returns in places such as /proc, where a directory exists and cannot get another
 * one: mkdir then reports ENOENT, and Node creates the existing parent again and again.
 */
export function makeDirectory(path: string, mode = 0o777): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
  const parent = dirname(path)
  if (!existsSync(parent)) makeDirectory(parent, mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // Another process may have created it since.
    if (codeOf(error) !== 'EEXIST' || !statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error
  }
}

/** Creates the data directory if it does not exist. Throws an Error for the operator. */
export function makeDataDirectory(path: string, mode?: number): void {
  try {
    makeDirectory(path, mode)
  } catch (error) {
    const reason = reasonOf(error as NodeJS.ErrnoException)
    throw new Error(`Cannot create the data directory ${path}: ${reason}. Set SWITCHYARD_DATA to another directory.`)
  }
}

/** Creates the data directory for an embedded PostgreSQL if it does not exist. Throws an Error for the operator. */
export function makeClusterParent(path: string): void {
  // When this process is root, PostgreSQL runs under another account, which must be able to enter the directory. Every
  // file inside has its own mode.
  makeDataDirectory(path, process.geteuid?.() === 0 ? 0o711 : 0o700)
}

function reasonOf({ code, errno, path }: NodeJS.ErrnoException): string {
  return code === 'ENOENT' && path !== undefined
    ? `${dirname(path)} takes no new directories`
    : getSystemErrorMessage(errno ?? 0)
}
