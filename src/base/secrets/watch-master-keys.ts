import { statSync } from 'node:fs'
import { errorMessage } from '../runtime/error-message.ts'
import type { Log } from '../runtime/log.ts'
import { findMasterKeys, hasKeyFile, type MasterKeyPlace, masterKeyPath } from './master-key.ts'

const EVERY_MS = 1_000

/**
 * Calls `onKeys` when the file in the data directory has other keys, so that a running gateway takes the key that
 * `switchyard key-ring rotate` writes. Keys of the environment change when the configuration is read again: call `read` then.
 *
 * @param onKeys returns false if the process cannot use them
 */
export function watchMasterKeys({
  place,
  onKeys,
  log,
  everyMs = EVERY_MS,
}: {
  readonly place: MasterKeyPlace
  readonly onKeys: (keys: readonly Buffer[]) => boolean
  readonly log: Pick<Log, 'info' | 'error'>
  readonly everyMs?: number
}): { read(place: MasterKeyPlace): void; stop(): void } {
  let readStamp: string | undefined
  let last = ''
  let problem = ''
  /** False: it failed, which is logged once for as long as the reason stays the same. */
  const read = (from: MasterKeyPlace): boolean => {
    try {
      const keys = findMasterKeys(from)?.all
      if (keys === undefined) throw new Error('There are none.')
      const now = keys.map(key => key.toString('hex')).join()
      if (now !== last && !onKeys(keys)) throw new Error('The key that encrypts is not among them.')
      if (now !== last && last !== '') log.info({ masterKeys: keys.length }, 'the master keys were read again')
      last = now
      problem = ''
      return true
    } catch (error) {
      const reason = errorMessage(error)
      if (reason !== problem)
        log.error({ reason }, 'the master keys could not be read again; the gateway goes on with those it has')
      problem = reason
      return false
    }
  }
  const readIfChanged = () => {
    const stamp = stampOf(place)
    if (stamp !== readStamp && read(place)) readStamp = stamp
  }
  readIfChanged()
  // Not fs.watch: some network file systems send no events.
  const timer = setInterval(readIfChanged, everyMs)
  timer.unref()
  return { read, stop: () => clearInterval(timer) }
}

/** Changes with each new version of the file, and with who may read it. The keys of the environment have none. */
function stampOf(place: MasterKeyPlace): string {
  if (!hasKeyFile(place)) return ''
  try {
    const { ino, ctimeMs, size } = statSync(masterKeyPath(place.dataDir))
    return `${ino} ${ctimeMs} ${size}`
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? ''
  }
}
