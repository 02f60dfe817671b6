import { accessSync, constants, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type FileLock, tryFileLock, waitForFileLock } from '../../db/file-lock.ts'
import { makeJournalDirectory, unusable } from './make-journal-directory.ts'
import { isSegmentName } from './recover-segments.ts'

/** A directory that only this process writes to, until it releases the directory or ends in any way. */
export interface ClaimedDirectory {
  readonly path: string
  /** The ids of the nodes that wrote here and were not removed, oldest first. */
  nodeIds(): string[]
  /** Records that a node writes here. Call it before the node is known elsewhere, so that a crash leaves its id. */
  addNode(id: string): void
  removeNode(id: string): void
  /** Lets other processes claim the directory. Nothing may be written to it afterwards. */
  release(): void
}

/**
 * Claims the free directory with the lowest number in `root`, and creates `root/1`, `root/2`, ... as needed.
 * The caller must replay what a dead process left there. Directories are never removed, since a lock on a
 * removed file would exclude no other process. Throws an error that says what to do when the directories
 * cannot be used.
 */
export async function claimDirectory(root: string): Promise<ClaimedDirectory> {
  using _ = await takeTurn(root)
  for (let number = 1; ; number++) {
    const claimed = tryClaim(join(root, String(number)))
    if (claimed) return claimed
  }
}

/**
 * Claims every free directory in `root` that contains segments or node ids. Those belonged to processes that died and
 * have no successor. Throws like claimDirectory, after releasing the directories it has claimed.
 */
export async function claimAbandonedDirectories(root: string): Promise<ClaimedDirectory[]> {
  using _ = await takeTurn(root)
  const claimed: ClaimedDirectory[] = []
  try {
    for (const path of numberedDirectories(root)) {
      const directory = tryClaim(path)
      if (directory === undefined) continue
      if (hasSegments(path) || directory.nodeIds().length > 0) claimed.push(directory)
      else directory.release()
    }
  } catch (error) {
    for (const directory of claimed) directory.release()
    throw error
  }
  return claimed
}

const turnTimeoutMs = 10_000

/**
 * Lets one process at a time search for a directory: two processes that try the same lock at the same moment
 * can both be refused.
 */
async function takeTurn(root: string): Promise<Disposable> {
  makeJournalDirectory(root)
  const path = join(root, 'claim.lock')
  checkWritable(path)
  const lock = await waitForFileLock(path, 'exclusive', turnTimeoutMs)
  return { [Symbol.dispose]: () => lock.release() }
}

/** Keeps the locks referenced. The garbage collector would release an unreferenced lock. */
const held = new Set<FileLock>()

function tryClaim(path: string): ClaimedDirectory | undefined {
  makeJournalDirectory(path)
  const lock = tryLock(join(path, 'lock'))
  if (lock === undefined) return undefined
  held.add(lock)
  return {
    path,
    nodeIds: () => readNodeIds(path),
    addNode: id => writeNodeIds(path, [...readNodeIds(path), id]),
    removeNode(id) {
      const others = readNodeIds(path).filter(each => each !== id)
      writeNodeIds(path, others)
    },
    release() {
      lock.release()
      held.delete(lock)
    },
  }
}

function tryLock(path: string): FileLock | undefined {
  checkWritable(path)
  try {
    return tryFileLock(path, 'exclusive')
  } catch (error) {
    throw unusable(dirname(path), error)
  }
}

/**
 * Throws when the file exists and is not writable. SQLite opens such a file read-only, and a request for an exclusive
 * lock succeeds with only a shared one. The check must not open the file: closing it would drop the locks of this
 * process on it.
 */
function checkWritable(path: string): void {
  try {
    if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK)
  } catch (error) {
    throw unusable(dirname(path), error)
  }
}

function numberedDirectories(root: string): string[] {
  const entries = readdirSync(root, { withFileTypes: true })
  const numbers = entries
    .filter(entry => entry.isDirectory() && /^[1-9]\d*$/.test(entry.name))
    .map(entry => +entry.name)
  return numbers.sort((a, b) => a - b).map(number => join(root, String(number)))
}

function hasSegments(path: string): boolean {
  return readdirSync(path).some(isSegmentName)
}

function readNodeIds(path: string): string[] {
  const file = join(path, 'node')
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
}

/** Replaces the file atomically, so that a crash cannot leave half an id. */
function writeNodeIds(path: string, ids: readonly string[]): void {
  const next = join(path, 'node.next')
  writeFileSync(next, ids.map(id => `${id}\n`).join(''), { mode: 0o600, flush: true })
  renameSync(next, join(path, 'node'))
}
