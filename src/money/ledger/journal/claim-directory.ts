import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  accessSync,
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { type FileLock, tryFileLock, waitForFileLock } from '../../../base/db/file-lock.ts'
import { diskIsFull, isDiskFull, makeJournalDirectory, unusable } from './make-journal-directory.ts'
import { isSegmentName } from './recover-segments.ts'
import { createSizesFile, type SizesFile } from './segment-store.ts'

/** A directory that only this process writes to, until it releases the directory or ends in any way. */
export interface ClaimedDirectory {
  readonly path: string
  /** The nodes that write or wrote here, as last written. */
  nodes(): RecordedNode[]
  /**
   * Replaces the nodes. Uses the reserve if the disk is full. Throws an error that says what to do when the disk
   * refuses them.
   */
  writeNodeIds(ids: readonly string[]): void
  readonly sizes: SizesFile
  /** Makes sure that there is a reserve, if the disk has room for one. */
  keepReserve(): void
  /** Lets other processes claim the directory. Nothing may be written to it afterwards. */
  release(): void
}

export interface RecordedNode {
  readonly nodeId: string
  /**
   * Whether the lock on this directory proves that the node is dead. False in a copy of its directory, where the
   * original has a lock of its own, and after a reboot of the machine.
   */
  readonly isDead: boolean
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
      if (hasSegments(path) || directory.nodes().length > 0) claimed.push(directory)
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
  const lockFile = join(path, 'lock')
  const lock = tryLock(lockFile)
  if (lock === undefined) return undefined
  held.add(lock)
  return {
    path,
    nodes: () => readNodes(path, fileIdentity(lockFile)),
    writeNodeIds: ids => writeNodeIds(path, ids, fileIdentity(lockFile)),
    sizes: createSizesFile(path, fileIdentity(lockFile)),
    keepReserve: () => keepReserve(path),
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

/** The directories of a journal root, in the order of their numbers. */
export function numberedDirectories(root: string): string[] {
  const entries = readdirSync(root, { withFileTypes: true })
  const numbers = entries
    .filter(entry => entry.isDirectory() && /^[1-9]\d*$/.test(entry.name))
    .map(entry => +entry.name)
  return numbers.sort((a, b) => a - b).map(number => join(root, String(number)))
}

function hasSegments(path: string): boolean {
  return readdirSync(path).some(isSegmentName)
}

/** Each line of the file has a node id and the identity of the lock under which it was written. */
function readNodes(path: string, identity: string | undefined): RecordedNode[] {
  const file = join(path, 'node')
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
  return lines.map(line => {
    const [nodeId, writtenUnder] = line.split(' ')
    return { nodeId: nodeId!, isDead: identity !== undefined && writtenUnder === identity }
  })
}

function writeNodeIds(path: string, ids: readonly string[], identity = ''): void {
  const text = ids.map(id => `${id} ${identity}\n`).join('')
  try {
    replaceNodeFile(path, text)
  } catch (error) {
    if (!isDiskFull(error)) throw unusable(path, error)
    try {
      rmSync(join(path, RESERVE), { force: true })
      replaceNodeFile(path, text)
    } catch (again) {
      throw diskIsFull(path, again)
    }
  }
}

/** Replaces the file atomically, so that a crash cannot leave half an id. */
function replaceNodeFile(path: string, text: string): void {
  const next = join(path, 'node.next')
  writeFileSync(next, text, { mode: 0o600, flush: true })
  renameSync(next, join(path, 'node'))
}

/** Takes up space that a start on a full disk needs. Random bytes, because a file system may compress others. */
const RESERVE = 'reserve'
const RESERVE_BYTES = 64 << 10

function keepReserve(path: string): void {
  const file = join(path, RESERVE)
  try {
    if (statSync(file, { throwIfNoEntry: false })?.size === RESERVE_BYTES) return
    writeFileSync(file, randomBytes(RESERVE_BYTES), { mode: 0o600 })
  } catch {
    // A part of a reserve would look like a reserve to an operator. The next start tries again.
    rmSync(file, { force: true })
  }
}

/**
 * Identifies a file while the machine runs. The copy of a file has another identity, also in a clone of its file system
 * or of the machine. The same identity means the same file of the same kernel, so a lock on it excludes every other
 * process. Undefined when the system does not say which boot this is.
 */
export function fileIdentity(path: string): string | undefined {
  bootId ??= readBootId()
  if (bootId === '') return undefined
  const { dev, ino } = statSync(path, { bigint: true })
  return `${bootId}:${dev}:${ino}`
}

/** Empty when it is unknown. */
let bootId: string | undefined

function readBootId(): string {
  try {
    if (process.platform === 'darwin')
      return execFileSync('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'utf8' }).trim()
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return ''
  }
}
