import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from './database-fault.ts'
import type { Login } from './embedded-cluster.ts'
import { giveToSameOwner } from './file-owner.ts'

/** The address and logins of the embedded PostgreSQL, stored in `postgres.json`. */
export type ConnectionFile = Omit<Login, DeskLogin> & {
  /** Absent in files of earlier versions, which had no such role. */
  readonly [key in DeskLogin]?: string
} & {
  /** The cluster that the file was written for. A copy of a data directory still names the original. */
  readonly directory: string
  /** The directory of the socket. */
  readonly host: string
  readonly port: number
}

type DeskLogin = 'deskUser' | 'deskPassword'

export const connectionFilePath = (dataDir: string) => join(dataDir, 'postgres.json')

/**
 * Reads `postgres.json`; undefined when there is none. Throws a message for the operator when it cannot be
 * read or is damaged.
 */
export function readConnectionFile(dataDir: string): ConnectionFile | undefined {
  const path = connectionFilePath(dataDir)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new Error(`Cannot read ${path} (${codeOf(error)}). Run this as the owner of ${dataDir}, or as root.`)
  }
  try {
    // Earlier versions did not write `directory`.
    const { directory = join(dataDir, 'postgres'), host, port, ...login } = JSON.parse(text)
    const { user, password, gatewayUser, gatewayPassword, deskUser, deskPassword, database } = login
    const desk = typeof deskUser === 'string' && typeof deskPassword === 'string' ? { deskUser, deskPassword } : {}
    if (
      [directory, host, user, password, gatewayUser, gatewayPassword, database].every(
        value => typeof value === 'string',
      ) &&
      typeof port === 'number'
    )
      return { directory, host, port, user, password, gatewayUser, gatewayPassword, ...desk, database }
  } catch {
    // Fall through: invalid JSON is reported like a missing field.
  }
  throw new Error(
    `${path} is damaged. Stop every process that uses this data directory and delete that file; the next start writes a new one.`,
  )
}

/** Replaces `postgres.json`, readable by its owner alone. */
export function writeConnectionFile(dataDir: string, contents: ConnectionFile): void {
  const path = connectionFilePath(dataDir)
  const draft = `${path}.new`
  writeFileSync(draft, `${JSON.stringify(contents, null, 2)}\n`, { mode: 0o600 })
  giveToSameOwner(draft)
  renameSync(draft, path)
}
