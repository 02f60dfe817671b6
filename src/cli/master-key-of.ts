import { loadMasterKey } from '../market/master-key.ts'
import type { Session } from './verb.ts'

/** The key that seals the credentials of hosters; made in the data directory if there is none yet. */
export function masterKeyOf({ config }: Session): Buffer {
  return loadMasterKey({ given: config.masterKey ?? undefined, dataDir: config.dataDir })
}
