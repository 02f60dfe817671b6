import { readFileSync, statSync } from 'node:fs'
import { systemErrorText } from '../../base/runtime/system-error-text.ts'
import { hostKeyOfEnvironment } from '../../start/config/config.ts'
import { UsageError } from '../failure.ts'

/** Group and others. */
const OTHERS = 0o077

/** Returns the key of the hoster: from a file that only its owner can read, an argument or the environment. */
export function readHostKey({ key, keyFile }: { key?: string | undefined; keyFile?: string | undefined }): string {
  const found = keyFile === undefined ? (key ?? hostKeyOfEnvironment()) : readSecretFile('--key-file', keyFile)
  if (found === undefined)
    throw new UsageError('Pass the key of the hoster with --key-file, or in SWITCHYARD_HOST_KEY.')
  if (!/^hk-sy-[0-9A-Za-z]{38}$/.test(found)) {
    throw new UsageError('This is not the key of a hoster. It begins with hk-sy- and has 44 characters.')
  }
  return found
}

/** Reads a secret. `option` names the file in errors. */
export function readSecretFile(option: string, file: string): string {
  try {
    if (process.platform !== 'win32' && (statSync(file).mode & OTHERS) !== 0) {
      throw new UsageError(`Others can read ${file}. Run: chmod 600 ${file}`)
    }
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`Cannot read ${option} ${file}: ${systemErrorText(error)}.`)
  }
}
