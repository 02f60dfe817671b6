import type { Log } from '../../runtime/log.ts'
import type { Scheduler } from '../../runtime/scheduler.ts'
import { type ClaimedDirectory, claimAbandonedDirectories, claimDirectory } from './claim-directory.ts'
import { createFileDisk, type FileDisk } from './file-disk.ts'
import { type Journal, openJournal } from './journal.ts'

/** The journals that no running process uses. This node writes to one of them and replays all of them. */
export interface Journals {
  readonly own: Journal
  /** What dead processes left, in the order they wrote it. */
  readonly recovered: readonly { readonly payload: Buffer; forget(): void }[]
  /** The node ids of those processes. This process has their locks, so they are dead. */
  readonly deadNodes: readonly string[]
  /**
   * Records a node id of this process for the next start on this directory. A failure throws for the first id
   * and is logged for later ones.
   */
  addNode(nodeId: string): void
  /**
   * Call it when the recovered charges are settled and the leases of the dead nodes are ended. Forgets those
   * nodes and releases the other directories.
   */
  settled(): Promise<void>
  /**
   * Call it when nothing is written any more. The ids of a process that could not be retired stay recorded,
   * and the next start ends its leases.
   */
  close(options: { retired: boolean }): Promise<void>
}

export interface JournalsOptions {
  /** Contains one directory per process. */
  readonly root: string
  readonly scheduler: Scheduler
  readonly fsync: boolean
  readonly maxBytes: number
  readonly log: Pick<Log, 'warn' | 'error'>
}

/** Throws an error that says what to do when the directories cannot be used. */
export async function openJournals({ root, scheduler, fsync, maxBytes, log }: JournalsOptions): Promise<Journals> {
  const ownDirectory = await claimDirectory(root)
  const directories = [ownDirectory, ...(await claimAbandonedDirectories(root))]
  const opened = directories.map(directory => {
    const disk = createFileDisk(directory.path)
    const journal = openJournal({ disk, scheduler, fsync, maxBytes, segmentBytes: segmentBytesOf(maxBytes) })
    if (journal.tornBytes > 0) {
      log.warn(
        { journal: directory.path, bytes: journal.tornBytes },
        'the last record of a journal is incomplete and was cut off',
      )
    }
    for (const damage of journal.damages) {
      log.error(
        { journal: directory.path, ...damage },
        'a part of a journal is damaged and was set aside; charges may be lost',
      )
    }
    return { directory, disk, ...journal }
  })
  const deadNodes = directories.map(directory => ({ directory, nodeIds: directory.nodeIds() }))
  const ownNodes: string[] = []
  // Only log failures: a full disk must not keep a node that was declared dead from continuing under another id, nor
  // a stopping node from closing its journal. A node with no id here is declared dead by its expiry. An id
  // that is left here is merely declared dead again.
  const logFailure = (error: unknown) =>
    log.error({ err: error, journal: ownDirectory.path }, 'the ids of this node could not be recorded in its journal')
  const [own, ...abandoned] = opened as [(typeof opened)[number], ...typeof opened]

  return {
    own: own.journal,
    recovered: opened.flatMap(({ journal, recovered }) =>
      recovered.map(({ payload, entry }) => ({ payload, forget: () => journal.forget(entry) })),
    ),
    deadNodes: deadNodes.flatMap(({ nodeIds }) => nodeIds),
    addNode(nodeId) {
      const isFirst = ownNodes.length === 0
      ownNodes.push(nodeId)
      try {
        ownDirectory.addNode(nodeId)
      } catch (error) {
        if (isFirst) throw error
        logFailure(error)
      }
    },
    async settled() {
      for (const { directory, nodeIds } of deadNodes) for (const nodeId of nodeIds) directory.removeNode(nodeId)
      await Promise.all(abandoned.map(closeDirectory))
    },
    async close({ retired }) {
      try {
        if (retired) for (const nodeId of ownNodes) ownDirectory.removeNode(nodeId)
      } catch (error) {
        logFailure(error)
      }
      await closeDirectory(own)
    },
  }
}

/**
 * Returns the size of a segment. A segment is removed when all of its records are settled, so with large segments,
 * settled records would fill the journal.
 */
function segmentBytesOf(maxBytes: number): number {
  return Math.min(4 << 20, Math.floor(maxBytes / 8))
}

interface OpenedDirectory {
  readonly journal: Journal
  readonly disk: FileDisk
  readonly directory: ClaimedDirectory
}

async function closeDirectory({ journal, disk, directory }: OpenedDirectory): Promise<void> {
  await journal.close()
  disk.close()
  directory.release()
}
