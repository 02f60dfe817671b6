import type { Log } from '../../runtime/log.ts'
import type { Scheduler } from '../../runtime/scheduler.ts'
import { type ClaimedDirectory, claimDirectory, claimLeftDirectories } from './claim-directory.ts'
import { createFileDisk, type FileDisk } from './file-disk.ts'
import { type Journal, openJournal } from './journal.ts'

/** The journals of this machine that no living process uses: one of them is this node's from now on, the others are read out. */
export interface Journals {
  readonly own: Journal
  /** What processes that died left behind, in the order they wrote it. */
  readonly recovered: readonly { readonly payload: Buffer; forget(): void }[]
  /** The nodes that those processes were. Their locks are ours, so they are dead. */
  readonly deadNodes: readonly string[]
  /** Notes that this process is this node now, so that a process after it knows. Throws where that cannot be, except after the first one. */
  addNode(nodeId: string): void
  /** What was recovered is settled and the leases of the dead nodes are ended: forgets them, and lets go of the other directories. */
  settled(): Promise<void>
  /** Call it when nothing is written any more. The nodes of a process that could not be retired stay noted: the next start ends their leases. */
  close(options: { retired: boolean }): Promise<void>
}

export interface JournalsOptions {
  /** Under it each process has a directory of its own. */
  readonly root: string
  readonly scheduler: Scheduler
  readonly fsync: boolean
  readonly maxBytes: number
  readonly log: Pick<Log, 'warn' | 'error'>
}

/** Throws an error in words when the directories cannot be used. */
export async function openJournals({ root, scheduler, fsync, maxBytes, log }: JournalsOptions): Promise<Journals> {
  const ownDirectory = await claimDirectory(root)
  const directories = [ownDirectory, ...(await claimLeftDirectories(root))]
  const opened = directories.map(directory => {
    const disk = createFileDisk(directory.path)
    const journal = openJournal({ disk, scheduler, fsync, maxBytes, segmentBytes: segmentBytesOf(maxBytes) })
    if (journal.tornBytes > 0) {
      log.warn(
        { journal: directory.path, bytes: journal.tornBytes },
        'the last record of a journal was never written whole; cut off',
      )
    }
    for (const damage of journal.damages) {
      log.error(
        { journal: directory.path, ...damage },
        'a part of a journal is damaged and set aside: charges may be lost',
      )
    }
    return { directory, disk, ...journal }
  })
  const deadNodes = directories.map(directory => ({ directory, nodeIds: directory.nodeIds() }))
  const ownNodes: string[] = []
  // A full disk neither keeps a node that was declared dead from going on under another id, nor one that stops from closing its journal. Whose id is
  // not there is given up a minute after it died, and one that is there without need is given up again.
  const noteFailure = (error: unknown) =>
    log.error({ err: error, journal: ownDirectory.path }, 'the ids of this node could not be noted in its journal')
  const [own, ...left] = opened as [(typeof opened)[number], ...typeof opened]

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
        noteFailure(error)
      }
    },
    async settled() {
      for (const { directory, nodeIds } of deadNodes) for (const nodeId of nodeIds) directory.removeNode(nodeId)
      await Promise.all(left.map(closeDirectory))
    },
    async close({ retired }) {
      try {
        if (retired) for (const nodeId of ownNodes) ownDirectory.removeNode(nodeId)
      } catch (error) {
        noteFailure(error)
      }
      await closeDirectory(own)
    },
  }
}

/** A segment goes when all of its records are settled: with few of them a journal would be full of what is long settled. */
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
