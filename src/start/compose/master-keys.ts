import { finishRotation } from '../../base/secrets/finish-rotation.ts'
import { readMark } from '../../base/secrets/key-ring-state.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** Seals with the key that the installation seals with. Returns what reads it again. */
export async function followKeyRing(
  { masterKeys, log }: ComposeContext,
  { general }: Pick<Database, 'general'>,
): Promise<() => Promise<void>> {
  const read = async () => {
    const mark = await readMark(general)
    if (mark === undefined || masterKeys.use(mark)) return
    log.error(
      'this node does not have the master key that the other nodes encrypt with: copy the key to it (SWITCHYARD_MASTER_KEY or master.key). docs/operating.md has the steps of a rotation',
    )
  }
  await read()
  return read
}

/** Returns the job that seals stored secrets again after a rotation. */
export function createRotationJob(
  { masterKeys, log }: ComposeContext,
  { audit, desk }: Pick<Database, 'audit' | 'desk'>,
): (signal: AbortSignal) => Promise<void> {
  // The pool of audits has no statement timeout.
  return signal => finishRotation({ pools: { gateway: audit, desk }, masterKeys, signal, log })
}
