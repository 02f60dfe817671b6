import { readFileSync } from 'node:fs'
import { type GoogleServiceAccount, parseServiceAccount } from '../../base/domain/cloud-credential.ts'
import { systemErrorText } from '../../base/runtime/error-message.ts'

/**
 * Returns the key of a service account from its JSON, or from the path of its file. Throws Error with the problem as
 * the end of a sentence, without a part of the key.
 */
export function readServiceAccount(written: string): GoogleServiceAccount {
  const found = written.trim()
  return parseServiceAccount(found.startsWith('{') ? found : readKeyFile(found))
}

function readKeyFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    // The text may be a part of a key, so it is not repeated.
    throw new Error(`names a file that cannot be read (${systemErrorText(error)}); it must be the path of a JSON key`)
  }
}
