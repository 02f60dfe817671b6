import { elementAt } from '../../../base/runtime/collections.ts'
import { failpoint } from '../../../base/runtime/failpoint.ts'
import type { Log } from '../../../base/runtime/log.ts'
import { ownCommand } from '../../../base/runtime/own-command.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import type { ClaimedDirectory, RecordedNode } from './claim-directory.ts'
import type { FileDisk } from './file-disk.ts'
import { type Journal, openJournal } from './journal.ts'
import type { ChangedSegment, Damage } from './recover-segments.ts'

/** The journals that no running process uses. This node writes to one of them and replays all of them. */
export interface Journals {
  readonly own: Journal
  /** What dead processes left, in the order they wrote it. */
  readonly recovered: readonly { readonly payload: Buffer; forget(): void }[]
  /** The node ids of those processes. This process has their locks, so they are dead. */
  readonly deadNodes: readonly string[]
  /**
   * Node ids of processes that may still run, for example because the directory is a copy: see RecordedNode. Nothing is
   * done about them. If they are dead, the other nodes notice it.
   */
  readonly doubtfulNodes: readonly string[]
  /** Segments that this process found damaged, at its start and since. */
  readonly damagedSegments: number
  /**
   * Notes a node id of this process for the next start on this directory. The first one is written by `settled`. A
   * failure to write a later one is logged.
   */
  addNode(nodeId: string): void
  /**
   * Call it when the recovered charges are settled and the leases of the dead nodes are ended, and before this node
   * takes leases. Forgets those nodes, releases the other directories and writes the id of this node: after the replay,
   * because a journal that has filled its disk is empty only then. Rejects when the id cannot be written.
   */
  settled(): Promise<void>
  /**
   * Call it when nothing is written any more. The ids of a process that could not be retired stay recorded,
   * and the next start ends its leases.
   */
  close(options: { retired: boolean }): Promise<void>
}

/** A journal directory of this process, and the disk of its files. */
export interface JournalDirectory {
  readonly claimed: ClaimedDirectory
  readonly disk: FileDisk
}

export interface JournalsOptions {
  readonly scheduler: Pick<Scheduler, 'soon'>
  readonly fsync: boolean
  readonly maxBytes: number
  readonly segmentBytes: number
  readonly log: Pick<Log, 'warn' | 'error'>
}

interface Opened extends JournalDirectory {
  readonly journal: Journal
}

/** Reads the journals of these directories. New charges are written to the first one. Throws JournalUnavailable. */
export function createJournals(
  [ownDirectory, ...otherDirectories]: readonly [JournalDirectory, ...JournalDirectory[]],
  options: JournalsOptions,
): Journals {
  const { log } = options
  let damagedSegments = 0
  const open = (directory: JournalDirectory) => {
    const { path, sizes } = directory.claimed
    const report = (facts: object) => {
      damagedSegments++
      log.error({ journal: path, ...facts }, `a journal is damaged: run ${ownCommand('journal inspect')}`)
    }
    const onDamaged = (changed: ChangedSegment) => report(lossOf(changed))
    const opened = openJournal({ ...options, disk: directory.disk, sizes, onDamaged })
    const { tornBytes } = opened
    if (tornBytes > 0)
      log.warn({ journal: path, bytes: tornBytes }, 'the last record of a journal is incomplete and was cut off')
    for (const damage of opened.damages) report(factsOf(damage))
    for (const changed of opened.changed)
      if (changed.isCertain) onDamaged(changed)
      else
        log.warn(
          { journal: path, ...lossOf(changed) },
          'a journal lacks records that were written: the machine lost power, or this is a copy that was made while the original ran',
        )
    return { ...directory, ...opened, nodes: directory.claimed.nodes() }
  }
  const own = open(ownDirectory)
  const others = otherDirectories.map(open)
  const opened = [own, ...others]
  const ownNodes: string[] = []
  let isSettled = false
  // Only log failures of the disk. A node with no id here is declared dead by its silence. An id that is left here is
  // merely declared dead again.
  const writeNodes = ({ claimed }: JournalDirectory, ids: readonly string[]) => {
    try {
      claimed.writeNodeIds(ids)
    } catch (error) {
      log.error({ err: error, journal: claimed.path }, 'the ids of nodes could not be recorded in a journal')
    }
  }

  return {
    own: own.journal,
    recovered: opened.flatMap(({ journal, recovered }) =>
      recovered.map(({ payload, entry }) => ({ payload, forget: () => journal.forget(entry) })),
    ),
    deadNodes: nodesOf(opened, true),
    doubtfulNodes: nodesOf(opened, false),
    get damagedSegments() {
      return damagedSegments
    },
    addNode(nodeId) {
      ownNodes.push(nodeId)
      if (isSettled) writeNodes(own, ownNodes)
    },
    async settled() {
      for (const other of others) if (other.nodes.length > 0) writeNodes(other, [])
      await Promise.all(others.map(close))
      await own.journal.removals()
      own.claimed.writeNodeIds(ownNodes)
      isSettled = true
      failpoint('node-recorded')
      own.claimed.keepReserve()
    },
    async close({ retired }) {
      // Before `settled`, the ids in the file are those of dead nodes with leases that may be open.
      if (retired && isSettled) writeNodes(own, [])
      await close(own)
    },
  }
}

function nodesOf(opened: readonly { readonly nodes: readonly RecordedNode[] }[], areDead: boolean): string[] {
  return opened.flatMap(({ nodes }) => nodes.filter(node => node.isDead === areDead).map(({ nodeId }) => nodeId))
}

function factsOf({ segment, places, keptAs }: Damage) {
  const bytes = places.reduce((sum, place) => sum + place.bytes, 0)
  return { segment, places: places.length, bytes, firstOffset: elementAt(places, 0).offset, keptAs }
}

function lossOf({ segment, expected, found }: ChangedSegment) {
  return {
    segment,
    expectedBytes: expected.bytes,
    foundBytes: found?.bytes ?? null,
    expectedRecords: expected.records,
    foundRecords: found?.records ?? 0,
  }
}

async function close({ journal, disk, claimed }: Opened): Promise<void> {
  await journal.close()
  disk.close()
  claimed.release()
}
