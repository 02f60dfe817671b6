import type { Disk } from '../../src/money/ledger/journal/disk.ts'

/** A disk in memory that can be made to fail. `files` is what a process that starts now would find. */
export interface MemoryDisk extends Disk {
  readonly files: Map<string, Buffer>
  /** The next append stores this many bytes and throws. */
  failNextAppendAfter(bytes: number): void
  /** While true, truncate and remove fail. */
  isReadOnly: boolean
  /** Syncs wait here until the test settles them. Undefined lets them succeed at once. */
  pendingSyncs: (PromiseWithResolvers<void> & { name: string })[] | undefined
  readonly appends: number
  /** The files that survive a loss of power. */
  readonly syncedNames: ReadonlySet<string>
}

export function createMemoryDisk(files: Iterable<readonly [string, Buffer]> = []): MemoryDisk {
  const contents = new Map([...files].map(([name, bytes]) => [name, Buffer.from(bytes)]))
  let keptBytes: number | undefined
  let appends = 0
  const syncedNames = new Set<string>()
  const contentOf = (name: string) => {
    const bytes = contents.get(name)
    if (bytes === undefined) throw new Error(`ENOENT: ${name}`)
    return bytes
  }
  const checkWritable = () => {
    if (disk.isReadOnly) throw new Error('EROFS: read-only file system')
  }
  const disk: MemoryDisk = {
    files: contents,
    syncedNames,
    isReadOnly: false,
    pendingSyncs: undefined,
    get appends() {
      return appends
    },
    failNextAppendAfter(bytes) {
      keptBytes = bytes
    },
    list: () => [...contents.keys()],
    read: name => Buffer.from(contentOf(name)),
    load: async name => contents.get(name),
    append(name, bytes) {
      checkWritable()
      appends++
      const kept = bytes.subarray(0, keptBytes)
      contents.set(name, Buffer.concat([contents.get(name) ?? Buffer.alloc(0), kept]))
      if (keptBytes === undefined) return
      keptBytes = undefined
      throw new Error('ENOSPC: no space left on device')
    },
    async sync(name) {
      contentOf(name)
      if (disk.pendingSyncs === undefined) return
      const pending = { ...Promise.withResolvers<void>(), name }
      disk.pendingSyncs.push(pending)
      await pending.promise
    },
    async syncDirectory() {
      for (const name of contents.keys()) syncedNames.add(name)
    },
    truncate(name, length) {
      checkWritable()
      contents.set(name, contentOf(name).subarray(0, length))
    },
    rename(name, newName, done) {
      if (!disk.isReadOnly) {
        contents.set(newName, contentOf(name))
        contents.delete(name)
      }
      done(disk.isReadOnly ? new Error('EROFS: read-only file system') : null)
    },
    remove(name, done) {
      if (!disk.isReadOnly) contents.delete(name)
      done(disk.isReadOnly ? new Error('EROFS: read-only file system') : null)
    },
  }
  return disk
}
