import { accessSync, constants, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type FileLock, tryFileLock, waitForFileLock } from '../../db/file-lock.ts'
import { makeJournalDirectory, unusable } from './make-journal-directory.ts'
import { isSegmentName } from './recover-segments.ts'

/** A directory that this process alone writes to, until it is released or the process dies, however it dies. */
export interface ClaimedDirectory {
  readonly path: string
  /** The nodes that wrote here and were not removed, oldest first. */
  nodeIds(): string[]
  /** Notes that a node writes here. To be called before the node is known elsewhere, so that a crash leaves its id. */
  addNode(id: string): void
  removeNode(id: string): void
  /** Lets others claim it. Nothing may be written to it afterwards. */
  release(): void
}

/**
 * Claims the free directory of the lowest number in `root`; makes `root/1`, `root/2`, ... as they are needed.
 * What a dead process left in it is the claimer's to replay. Directories are never removed: a lock on a removed file
 * would lock nobody out.
 * Throws an error in words when the directories cannot be used.
 */
export async function claimDirectory(root: string): Promise<ClaimedDirectory> {
  using _ = await takeTurn(root)
  for (let number = 1; ; number++) {
    const claimed = tryClaim(join(root, String(number)))
    if (claimed) return claimed
  }
}

/**
 * Claims every free directory in `root` that has segments or node ids in it: those of processes that died and have no
 * successor. Empty when there are none. Throws like claimDirectory, holding none of them then.
 */
export async function claimLeftDirectories(root: string): Promise<ClaimedDirectory[]> {
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

/** One at a time looks for a directory: two that try one lock at the same moment can both be refused. */
async function takeTurn(root: string): Promise<Disposable> {
  makeJournalDirectory(root)
  const path = join(root, 'claim.lock')
  checkWritable(path)
  const lock = await waitForFileLock(path, 'exclusive', turnTimeoutMs)
  return { [Symbol.dispose]: () => lock.release() }
}

/** A lock that nobody refers to would be released by the garbage collector. */
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
 * SQLite opens a file that it may not write to for reading, and calls a shared lock on it exclusive then.
 * It must not be found out by opening the file: closing it again would drop the locks this process has on it.
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

/** Replaces the file in one step, so that no crash leaves half an id. */
function writeNodeIds(path: string, ids: readonly string[]): void {
  const next = join(path, 'node.next')
  writeFileSync(next, ids.map(id => `${id}\n`).join(''), { mode: 0o600, flush: true })
  renameSync(next, join(path, 'node'))
}
