import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { giveToSameOwner } from '../db/file-owner.ts'
import { makeDataDirectory } from '../db/make-directory.ts'
import { MasterKeys } from './master-keys.ts'

const KEY_BYTES = 32

/**
 * Returns the master keys: `masterKey` of the configuration (SWITCHYARD_MASTER_KEY), or those in `<dataDir>/master.key`, where the
 * first start creates one. Each is 32 bytes as hex or base64; blanks, commas or line ends stand between several. Throws an Error
 * that says what to do when one is not a valid key.
 */
export function loadMasterKeys(place: MasterKeyPlace): MasterKeys {
  return findMasterKeys(place) ?? new MasterKeys(create(masterKeyPath(place.dataDir), place.dataDir))
}

export interface MasterKeyPlace {
  /** Null or empty when the keys are in the data directory. */
  readonly masterKey: string | null
  readonly dataDir: string
}

/** Like loadMasterKeys, but returns undefined instead of creating a key. */
export function findMasterKeys({ masterKey, dataDir }: MasterKeyPlace): MasterKeys | undefined {
  if (!hasKeyFile({ masterKey })) {
    const keys = parseMasterKeys(masterKey ?? '')
    if (!keys)
      throw new Error(
        'SWITCHYARD_MASTER_KEY must be 32 bytes as hex (64 characters) or base64 (44). Create one with: openssl rand -hex 32',
      )
    return new MasterKeys(keys)
  }
  const keys = read(masterKeyPath(dataDir))
  return keys && new MasterKeys(keys)
}

/** Whether the keys are in the data directory, where commands can change them. */
export const hasKeyFile = ({ masterKey }: Pick<MasterKeyPlace, 'masterKey'>) => masterKey === null || masterKey === ''

export const masterKeyPath = (dataDir: string) => join(dataDir, 'master.key')

/** Draws a key, and adds it to those in the data directory. It is on the disk when this returns. */
export function addMasterKey(dataDir: string): Buffer {
  const key = randomBytes(KEY_BYTES)
  writeMasterKeys(dataDir, [...(read(masterKeyPath(dataDir)) ?? []), key])
  return key
}

/** Replaces the keys in the data directory. A reader sees the old ones or the new ones, never a part. */
export function writeMasterKeys(dataDir: string, keys: readonly Buffer[]): void {
  const path = masterKeyPath(dataDir)
  withDraft(path, keys, draft => renameSync(draft, path))
}

/** Reads 32 bytes each from hex, base64 or base64url. Undefined if there is none, or anything else. */
export function parseMasterKeys(text: string): readonly Buffer[] | undefined {
  const keys = text
    .split(/[\s,]+/)
    .filter(word => word !== '')
    .map(parseMasterKey)
  if (keys.length === 0 || !keys.every(key => key !== undefined)) return undefined
  return keys.filter((key, at) => keys.findIndex(each => each.equals(key)) === at)
}

function parseMasterKey(text: string): Buffer | undefined {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex')
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return undefined
  const key = Buffer.from(text, 'base64')
  return key.length === KEY_BYTES ? key : undefined
}

function read(path: string): readonly Buffer[] | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new Error(`Cannot read ${path} (${code}). Run this as its owner, or as root.`)
  }
  const keys = parseMasterKeys(text)
  if (!keys)
    throw new Error(
      `${path} does not contain a valid key. Restore it from a backup: without it, the stored keys of hosters cannot be decrypted.`,
    )
  return keys
}

/** Creates a key. Two concurrent starts end up with the same one. */
function create(path: string, dataDir: string): readonly Buffer[] {
  makeDataDirectory(dataDir)
  const keys = [randomBytes(KEY_BYTES)]
  try {
    withDraft(path, keys, draft => linkSync(draft, path))
    return keys
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    const other = read(path)
    if (other === undefined) throw error
    return other
  }
}

/** Writes the keys under a temporary name and passes it to `publish`: a reader never sees half a key. */
function withDraft(path: string, keys: readonly Buffer[], publish: (draft: string) => void): void {
  const draft = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`
  try {
    writeFileSync(draft, keys.map(key => `${key.toString('hex')}\n`).join(''), { mode: 0o600, flag: 'wx', flush: true })
    chmodSync(draft, 0o600)
    giveToSameOwner(draft)
    publish(draft)
    flushDirectory(dirname(path))
  } finally {
    rmSync(draft, { force: true })
    removeDrafts(path)
  }
}

/** Makes a name in it outlive a loss of power, which the bytes of the file do already. */
function flushDirectory(path: string): void {
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

/** Removes what processes have left that were killed in `withDraft`: it has keys that may be forgotten everywhere else. */
function removeDrafts(path: string): void {
  for (const name of readdirSync(dirname(path))) {
    const pid = /^master\.key\.(\d+)\.[0-9a-f]{8}$/.exec(name)?.[1]
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(dirname(path), name), { force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
