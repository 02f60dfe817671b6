import { statSync } from 'node:fs'
import { errorMessage } from '../runtime/error-message.ts'
import type { Log } from '../runtime/log.ts'
import { findMasterKeys, isInFile, type MasterKeyPlace, pathIn } from './master-key.ts'

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
  let stamp = stampOf(place)
  let last = ''
  const read = (from: MasterKeyPlace) => {
    try {
      const keys = findMasterKeys(from)?.all
      if (keys === undefined) throw new Error('There are none.')
      const now = keys.map(key => key.toString('hex')).join()
      if (now === last) return
      if (!onKeys(keys)) throw new Error('The key that encrypts is not among them.')
      if (last !== '') log.info({ masterKeys: keys.length }, 'the master keys were read again')
      last = now
    } catch (error) {
      const reason = errorMessage(error)
      log.error({ reason }, 'the master keys could not be read again; the gateway goes on with those it has')
    }
  }
  read(place)
  // Not fs.watch: some network file systems send no events.
  const timer = setInterval(() => {
    const now = stampOf(place)
    if (now === stamp) return
    stamp = now
    read(place)
  }, everyMs)
  timer.unref()
  return { read, stop: () => clearInterval(timer) }
}

/** Changes with each new version of the file. The keys of the environment have none. */
function stampOf(place: MasterKeyPlace): string {
  if (!isInFile(place)) return ''
  const found = statSync(pathIn(place.dataDir), { throwIfNoEntry: false })
  return found === undefined ? '' : `${found.ino} ${found.mtimeMs} ${found.size}`
}
