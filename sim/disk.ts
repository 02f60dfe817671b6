import type { Disk } from '../src/money/ledger/journal/disk.ts'
import { isSegmentName } from '../src/money/ledger/journal/recover-segments.ts'
import type { Process } from './process.ts'
import type { World } from './world.ts'

/** A directory on a disk. It outlives the processes that write to it. */
export interface SimDisk {
  /** The directory as a process sees it. */
  mount(process: Process): Disk
  /** Chance that an append or a sync fails. A failed append may have written a part. */
  faultRate: number
  /** Other programs leave no room on the disk for a while. */
  fill(forMs: number): void
  /** Flips one bit of a file. Returns whether there was a file. */
  flipBit(): boolean
  /** Bytes that can still be written. */
  readonly roomBytes: number
  /** Power loss: any part of the unsynced bytes may be gone. */
  losePower(): void
  /** The disk is replaced by an empty one. */
  replace(): void
  /** A copy of the directory on another disk, while processes may write to it. */
  copy(name: string): SimDisk
  /** The next append of the process writes only a part, and the process dies in it. */
  tearNextAppend(): void
  /** Removes all faults. */
  repair(): void
  readonly hasSegments: boolean
}

interface File {
  chunks: Buffer[]
  length: number
  /** Number of leading bytes that survive a loss of power, except for the gap. */
  syncedLength: number
  /** Pages that a failed sync left unwritten. Linux marks them as clean, so no later sync writes them. */
  gap: { readonly start: number; readonly end: number } | undefined
  /** Whether the name of the file survives a loss of power. */
  isNameSynced: boolean
}

/** `capacityBytes`: all files together. */
export function createSimDisk(
  world: World,
  name: string,
  capacityBytes: number,
  content: ReadonlyMap<string, File> = new Map(),
): SimDisk {
  let files = new Map(content)
  let isTearing = false
  let fullUntilMs = 0

  const disk: SimDisk = {
    mount: process => mounted(process),
    faultRate: 0,
    losePower() {
      for (const [file, content] of files) {
        const { length, syncedLength, gap } = content
        if (!content.isNameSynced && world.random.chance(0.5)) {
          world.note(name, 'power lost', file, 'with its name')
          files.delete(file)
          continue
        }
        content.isNameSynced = true
        if (gap !== undefined) {
          world.note(name, 'power lost', file, `the pages from ${gap.start} to ${gap.end}`)
          whole(content).fill(0, gap.start, gap.end)
          content.gap = undefined
        }
        if (length === syncedLength) continue
        const left = world.random.between(syncedLength, length)
        // A file system may have extended the file before it wrote the data.
        const zeros = world.random.chance(0.2) ? world.random.between(0, length - left) : 0
        world.note(name, 'power lost', file, `${left} + ${zeros} zeros of ${length}`)
        if (left + zeros === 0) files.delete(file)
        else {
          content.chunks = [read(content).subarray(0, left), Buffer.alloc(zeros)]
          content.length = left + zeros
          content.syncedLength = content.length
        }
      }
    },
    fill(forMs) {
      world.note(name, 'is full for', forMs)
      fullUntilMs = world.nowMs + forMs
    },
    flipBit() {
      const written = [...files].filter(([, { length }]) => length > 0)
      if (written.length === 0) return false
      const [file, content] = world.random.pick(written)
      const bit = world.random.between(0, content.length * 8 - 1)
      world.note(name, 'flips a bit of', file, bit)
      whole(content)[bit >> 3]! ^= 1 << (bit & 7)
      return true
    },
    get roomBytes() {
      if (world.nowMs < fullUntilMs) return 0
      let used = 0
      // An operator moves damaged segments away.
      for (const [file, { length }] of files) if (isSegmentName(file)) used += length
      return Math.max(capacityBytes - used, 0)
    },
    replace() {
      world.note(name, 'replaced')
      files = new Map()
    },
    copy(copyName) {
      const copied = Array.from(files, ([file, content]): [string, File] => [
        file,
        {
          chunks: [read(content)],
          length: content.length,
          syncedLength: content.length,
          gap: undefined,
          isNameSynced: true,
        },
      ])
      return createSimDisk(world, copyName, capacityBytes, new Map(copied))
    },
    tearNextAppend() {
      isTearing = true
    },
    repair() {
      disk.faultRate = 0
      fullUntilMs = 0
      isTearing = false
    },
    get hasSegments() {
      return [...files.keys()].some(isSegmentName)
    },
  }
  return disk

  function mounted(process: Process): Disk {
    return {
      list() {
        return [...files.keys()]
      },
      read(file) {
        return read(existing(file))
      },
      load(file) {
        return new Promise(resolve => {
          if (!process.enter('load')) return
          process.deliver(0.1, () => {
            const content = files.get(file)
            resolve(content && read(content))
          })
        })
      },
      append(file, bytes) {
        if (!process.enter('append')) throw diskError('EIO')
        const content = files.get(file) ?? {
          chunks: [],
          length: 0,
          syncedLength: 0,
          gap: undefined,
          isNameSynced: false,
        }
        const room = Math.min(disk.roomBytes, bytes.length)
        const isFailing = room < bytes.length || (disk.faultRate > 0 && world.random.chance(disk.faultRate))
        const part = isTearing || isFailing ? world.random.between(0, room) : bytes.length
        if (part > 0 || !isFailing) files.set(file, content)
        // Copied because the journal reuses its buffer.
        content.chunks.push(Buffer.from(bytes.subarray(0, part)))
        content.length += part
        if (isTearing) {
          isTearing = false
          world.note(name, 'torn at', file, content.length)
          process.kill()
          throw diskError('EIO')
        }
        if (isFailing) {
          world.note(name, 'append fails', file, part, bytes.length)
          throw diskError('ENOSPC')
        }
      },
      sync(file) {
        return new Promise((resolve, reject) => {
          if (!process.enter('sync')) return
          const content = existing(file)
          const { length } = content
          const isFailing = disk.faultRate > 0 && world.random.chance(disk.faultRate)
          process.deliver(world.random.skewed(0.1, 20), () => {
            if (isFailing) {
              world.note(name, 'sync fails', file)
              const start = content.gap?.start ?? content.syncedLength
              const end = Math.min(length, content.length)
              if (end > start) content.gap = { start, end }
              reject(diskError('EIO'))
              return
            }
            content.syncedLength = Math.max(content.syncedLength, Math.min(length, content.length))
            resolve()
          })
        })
      },
      syncDirectory() {
        return new Promise((resolve, reject) => {
          if (!process.enter('sync directory')) return
          const isFailing = disk.faultRate > 0 && world.random.chance(disk.faultRate)
          const named = [...files.values()]
          process.deliver(world.random.skewed(0.1, 20), () => {
            if (isFailing) {
              reject(diskError('EIO'))
              return
            }
            for (const content of named) content.isNameSynced = true
            resolve()
          })
        })
      },
      truncate(file, length) {
        if (!process.enter('truncate')) throw diskError('EIO')
        const content = existing(file)
        content.chunks = [read(content).subarray(0, length)]
        content.length = length
        content.syncedLength = Math.min(content.syncedLength, length)
        if (content.gap !== undefined && content.gap.end > length)
          content.gap = content.gap.start < length ? { start: content.gap.start, end: length } : undefined
      },
      rename(file, newName, done) {
        if (!process.enter('rename')) return
        files.set(newName, existing(file))
        files.delete(file)
        done(null)
      },
      remove(file, done) {
        if (!process.enter('remove')) return
        existing(file)
        files.delete(file)
        done(null)
      },
    }
  }

  function existing(file: string): File {
    const content = files.get(file)
    if (content === undefined) throw diskError('ENOENT')
    return content
  }
}

function whole(content: File): Buffer {
  const bytes = Buffer.concat(content.chunks)
  content.chunks = [bytes]
  return bytes
}

/** Returns a copy, since callers may keep views into it. */
function read(content: File): Buffer {
  return Buffer.from(whole(content))
}

function diskError(code: string): Error {
  return Object.assign(new Error(`${code}: simulated`), { code })
}
