import { createHmac, randomBytes } from 'node:crypto'
import { chmodSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { giveToSameOwner } from '../db/file-owner.ts'
import { makeDataDirectory } from '../db/make-directory.ts'

const KEY_BYTES = 32

/**
 * Returns the key that seals upstream credentials: `masterKey` of the configuration (SWITCHYARD_MASTER_KEY,
 * 32 bytes as hex or base64), or the key in `<dataDir>/master.key`, created on first use. Throws an Error
 * that says what to do when either is not a valid key.
 */
export function loadMasterKey(place: MasterKeyPlace): Buffer {
  return findMasterKey(place) ?? create(pathIn(place.dataDir), place.dataDir)
}

/** Derives a key of its own for a purpose. */
export function deriveKey(masterKey: Buffer, purpose: string): Buffer {
  return createHmac('sha256', masterKey).update(purpose).digest()
}

/** The purpose of the key that signs credit: see ledger/credit-evidence.ts. */
export const EVIDENCE = 'evidence of credit'

export interface MasterKeyPlace {
  /** Null or empty when the key is in the data directory. */
  readonly masterKey: string | null
  readonly dataDir: string
}

/** Like loadMasterKey, but returns undefined instead of creating a key. */
export function findMasterKey({ masterKey, dataDir }: MasterKeyPlace): Buffer | undefined {
  if (masterKey !== null && masterKey !== '') {
    const key = parseMasterKey(masterKey)
    if (!key)
      throw new Error(
        'SWITCHYARD_MASTER_KEY must be 32 bytes as hex (64 characters) or base64 (44). Create one with: openssl rand -hex 32',
      )
    return key
  }
  return read(pathIn(dataDir))
}

const pathIn = (dataDir: string) => join(dataDir, 'master.key')

/** Reads 32 bytes from hex, base64 or base64url; undefined for anything else. */
export function parseMasterKey(text: string): Buffer | undefined {
  const trimmed = text.trim()
  if (/^[0-9a-f]{64}$/i.test(trimmed)) return Buffer.from(trimmed, 'hex')
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)) return undefined
  const key = Buffer.from(trimmed, 'base64')
  return key.length === KEY_BYTES ? key : undefined
}

function read(path: string): Buffer | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new Error(`Cannot read ${path} (${code}). Run this as its owner, or as root.`)
  }
  const key = parseMasterKey(text)
  if (!key)
    throw new Error(
      `${path} does not contain a valid key. Restore it from a backup: without it, the stored keys of hosters cannot be decrypted.`,
    )
  return key
}

/**
 * Creates a key. Writes it under a temporary name, then links it: a reader never sees half a key, and two
 * concurrent starts end up with the same key.
 */
function create(path: string, dataDir: string): Buffer {
  makeDataDirectory(dataDir)
  const draft = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`
  const key = randomBytes(KEY_BYTES)
  try {
    writeFileSync(draft, `${key.toString('hex')}\n`, { mode: 0o600, flag: 'wx', flush: true })
    chmodSync(draft, 0o600)
    giveToSameOwner(draft)
    linkSync(draft, path)
    return key
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    return read(path)!
  } finally {
    rmSync(draft, { force: true })
  }
}
