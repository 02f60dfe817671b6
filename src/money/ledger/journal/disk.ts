/**
 * The flat directory where a journal keeps its files. Writes are synchronous, so that nothing can happen
 * between a record and its write.
 */
export interface Disk {
  /** The names of all files, in any order. */
  list(): string[]
  read(name: string): Buffer
  /** Like `read`, but does not block. Undefined when the file is gone or cannot be read. */
  load(name: string): Promise<Buffer | undefined>
  /**
   * Appends bytes and creates the file if needed. Throws the error of the operating system; some of the bytes
   * may be stored then.
   */
  append(name: string, bytes: Buffer): void
  /** Resolves when everything appended so far survives a loss of power, provided that the name of the file does. */
  sync(name: string): Promise<void>
  /** Resolves when the names of all files so far survive a loss of power. */
  syncDirectory(): Promise<void>
  truncate(name: string, length: number): void
  /** Calls `done` once, at once or later, with an error when the file still exists. The name is not used again. */
  remove(name: string, done: (error: Error | null) => void): void
  /** Like `remove`, but keeps the file under another name. Needs no space on the disk. */
  rename(name: string, newName: string, done: (error: Error | null) => void): void
}
